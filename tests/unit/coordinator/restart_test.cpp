#include <algorithm>
#include <memory>

#include "proto/control_message.hpp"
#include "proto/wire_version.hpp"
#include "server/coordinator/store/check_record.hpp"
#include "tests/support/catch.hpp"
#include "tests/unit/coordinator/fake_cluster.hpp"
#include "tests/unit/coordinator/store/state_folder.hpp"

using namespace std::chrono_literals;
using Catch::Matchers::Contains;
using Catch::Matchers::StartsWith;

namespace taut {
namespace {

using test::Folder;
using test::stored_job;

void fill(FakeCluster& cluster) {
  cluster.add_server("s0");
  cluster.add_server("s1");
  cluster.add_worker("w0");
  cluster.add_worker("w1");
  cluster.run_for(1s);
}

void goes_on_after_restart(std::unique_ptr<CoordinatorStore> store) {
  FakeCluster cluster(1, {}, std::move(store));
  fill(cluster);
  const std::uint64_t job = cluster.submit(make_job(0, 2000), 55).job();
  REQUIRE(cluster.run_until([&] { return cluster.at("w1").worker.clock() > 10; }));
  CHECK(cluster.set_slack(job, 3).error().empty());
  cluster.run_for(1s);
  const std::uint64_t life = cluster.at("w1").worker.job()->incarnation();
  cluster.restart_coordinator(4s);
  CHECK(cluster.status(job).state() == pb::RUNNING);
  CHECK(cluster.status(job).slack() == 3);
  CHECK(cluster.submit(make_job(0, 2000), 55).job() == job);
  cluster.run_for(20s);
  CHECK(cluster.status(job).epoch() == 0);
  CHECK(cluster.at("w1").worker.job()->incarnation() == life);
  REQUIRE(cluster.run_until_state(job, pb::DONE));
  // Numbers are never given twice.
  CHECK(cluster.submit(make_job(0)).job() == job + 1);
  cluster.restart_coordinator(1s);
  CHECK(cluster.status(job).state() == pb::DONE);
  CHECK(cluster.status(job).parameters_sha256() == "digest");
  CHECK(cluster.broken().empty());
}

/// How many processes the coordinator lists: of an idle cluster those that have joined.
int listed(FakeCluster& cluster) {
  pb::ControlMessage request;
  request.mutable_status_request();
  const pb::StatusReply reply = cluster.ask(request).status_reply();
  return reply.servers_size() + reply.workers_size();
}

/// A job of 300 workers that is done.
pb::StoredJob large_job(std::uint64_t id) {
  constexpr std::uint32_t kMembers = 300;
  pb::StoredJob job = stored_job(id, "");
  job.set_state(pb::DONE);
  job.set_slots(kMembers);
  job.add_modes();
  for (std::uint32_t i = 0; i < kMembers; ++i) {
    pb::StoredMember& member = *job.add_members();
    member.mutable_member()->set_worker(i);
    member.mutable_member()->set_slot(i);
    member.mutable_member()->set_name("worker" + std::to_string(i));
    member.mutable_member()->set_leave_clock(Clock::never().value());
    member.set_finished(true);
    pb::Progress& progress = *member.mutable_progress();
    progress.set_clock(1000 - i);
    for (int staleness = 0; staleness < 8; ++staleness) {
      pb::StalenessBin& bin = *progress.add_staleness();
      bin.set_staleness(staleness);
      bin.set_reads(10);
    }
  }
  for (int i = 0; i < 10; ++i) job.add_evaluations()->set_clock(100 * i);
  return job;
}

}  // namespace

TEST_CASE("a status of many ended jobs of many workers can be read", "[coordinator]") {
  constexpr int kJobs = 200;
  CoordinatorRecords records;
  for (std::uint64_t id = 1; id <= kJobs; ++id) records.jobs[JobId(id)] = large_job(id);
  Coordinator coordinator({}, records, TimePoint());
  const auto status_of = [&](std::uint64_t job) {
    pb::ControlMessage request;
    request.mutable_status_request()->set_job(job);
    const auto output = coordinator.handle(PeerId(1), request, TimePoint());
    const auto reply = decode_control(encode(output.messages.at(0).message));
    REQUIRE(reply.has_value());
    return reply.value().status_reply();
  };
  const pb::StatusReply all = status_of(0);
  REQUIRE(all.jobs_size() == kJobs);
  CHECK(all.jobs(kJobs - 1).workers_size() == 300);
  CHECK(all.jobs(kJobs - 1).evaluations_size() == 10);
  // What a list shows is kept of an old one.
  const pb::JobStatus& old = all.jobs(0);
  REQUIRE(old.workers_size() == 1);
  CHECK(old.workers(0).progress().clock() == 1000 - 299);
  CHECK(old.former_workers() == 299);
  REQUIRE(old.former_staleness_size() == 8);
  CHECK(old.former_staleness(0).reads() == 2990);
  REQUIRE(old.evaluations_size() == 1);
  CHECK(old.evaluations(0).clock() == 900);
  CHECK(status_of(1).jobs(0).workers_size() == 300);
}

TEST_CASE("of two lives of a worker in the records the newer one is known after a restart",
          "[coordinator]") {
  // The newer one is of the earlier job.
  CoordinatorRecords records;
  for (const std::uint64_t id : {1, 2}) {
    pb::StoredJob& job = records.jobs[JobId(id)];
    job = stored_job(id, "");
    job.set_state(pb::RUNNING);
    job.set_slots(1);
    job.add_modes();
    pb::StoredMember& member = *job.add_members();
    member.set_session(10 * id);
    member.mutable_member()->set_name("w0");
    member.mutable_member()->set_incarnation(id == 1 ? 9 : 4);
    member.mutable_member()->set_leave_clock(Clock::never().value());
  }
  records.counters.set_next_incarnation(100);
  Coordinator coordinator({}, records, TimePoint());
  pb::ControlMessage message;
  pb::Hello& hello = *message.mutable_hello();
  hello.set_wire_version(kWireVersion);
  hello.set_role(pb::ROLE_WORKER);
  hello.set_name("w0");
  hello.set_session(10);
  const auto output = coordinator.handle(PeerId(1), message, TimePoint());
  const auto reply = std::ranges::find_if(
      output.messages, [](const CoordinatorMessage& one) { return one.message.has_hello_reply(); });
  REQUIRE(reply != output.messages.end());
  CHECK(reply->message.hello_reply().accepted());
  CHECK(reply->message.hello_reply().incarnation() == 9);
}

TEST_CASE("the newest ended jobs are kept, across a restart too", "[coordinator][store]") {
  const Folder folder;
  FakeCluster cluster(1, {}, open_sqlite_store(folder.path).value());
  cluster.options.ended_jobs = 3;
  fill(cluster);
  cluster.restart_coordinator(1s);
  cluster.run_for(2s);
  const std::uint64_t running = cluster.submit(make_job(0, 100000)).job();
  REQUIRE(cluster.run_until_state(running, pb::RUNNING));
  std::vector<std::uint64_t> stopped;
  for (int i = 0; i < 5; ++i) {
    stopped.push_back(cluster.submit(make_job(0)).job());
    CHECK(cluster.stop(stopped.back()).error().empty());
  }
  const auto jobs = [&] {
    pb::ControlMessage request;
    request.mutable_status_request();
    const pb::StatusReply reply = cluster.ask(request).status_reply();
    std::vector<std::uint64_t> known;
    for (const pb::JobStatus& job : reply.jobs()) known.push_back(job.job());
    return known;
  };
  // One that runs is no old job, however long it has been there.
  const std::vector<std::uint64_t> kept = {running, stopped[2], stopped[3], stopped[4]};
  CHECK(jobs() == kept);
  cluster.restart_coordinator(1s);
  CHECK(jobs() == kept);
  cluster.run_for(2s);  // the workers find it again
  CHECK(cluster.submit(make_job(0)).job() == stopped[4] + 1);
  CHECK(cluster.broken().empty());
}

TEST_CASE("a running job continues when the coordinator restarts", "[coordinator][store]") {
  SECTION("from memory") {
    goes_on_after_restart(make_memory_store());
  }
  SECTION("from SQLite") {
    const Folder folder;
    goes_on_after_restart(open_sqlite_store(folder.path).value());
  }
}

TEST_CASE("a process that does not return after a restart is lost after the heartbeat limit",
          "[coordinator][store]") {
  FakeCluster cluster;
  fill(cluster);
  const std::uint64_t job = cluster.submit(make_job(0)).job();
  REQUIRE(cluster.run_until([&] { return cluster.at("w1").worker.clock() > 10; }));

  SECTION("a worker: the other continues") {
    cluster.kill("w1");
    cluster.restart_coordinator(1s);
    cluster.run_for(14s);
    CHECK(cluster.status(job).epoch() == 0);
    REQUIRE(cluster.run_until([&] { return cluster.status(job).epoch() == 1; }));
    CHECK_THAT(cluster.status(job).message(), Contains("after the coordinator's restart"));
    CHECK(cluster.status(job).state() == pb::RUNNING);
  }
  SECTION("a server: the job fails") {
    cluster.kill("s1");
    cluster.restart_coordinator(1s);
    REQUIRE(cluster.run_until_state(job, pb::FAILED));
    CHECK_THAT(cluster.status(job).message(), StartsWith("server \"s1\" at s1:7601 was silent"));
  }
  SECTION("a server that was restarted too: the job fails at once, and the next one runs") {
    cluster.add_server("s1");
    cluster.restart_coordinator(1s);
    cluster.run_for(3s);
    CHECK(cluster.status(job).state() == pb::FAILED);
    CHECK_THAT(cluster.status(job).message(), StartsWith("server \"s1\" is a new process"));
    const std::uint64_t next = cluster.submit(make_job(2, 10)).job();
    CHECK(cluster.run_until_state(next, pb::DONE));
  }
}

TEST_CASE("a restart in the middle of a change of members finishes it", "[coordinator][store]") {
  FakeCluster cluster;
  fill(cluster);
  const std::uint64_t job = cluster.submit(make_job(2)).job();
  REQUIRE(cluster.run_until([&] { return cluster.at("w1").worker.clock() > 10; }));
  cluster.at("s1").server.set_busy(true);

  SECTION("a loss") {
    cluster.kill("w1");
    cluster.run_for(20s);
    REQUIRE(cluster.at("s0").server.state_of(job)->members(1).fenced());
  }
  SECTION("a change of mode") {
    CHECK(cluster.set_slack(job, 0).error().empty());
    cluster.run_for(1s);
    REQUIRE(cluster.at("s0").server.state_of(job)->hold_from() != Clock::never().value());
  }
  cluster.restart_coordinator(1s);
  cluster.at("s1").server.set_busy(false);
  CHECK(cluster.run_until([&] { return cluster.status(job).epoch() == 1; }));
  CHECK(cluster.broken().empty());
}

TEST_CASE("a coordinator without its state starts afresh, and the others detect it",
          "[coordinator][store]") {
  auto records = std::make_shared<CoordinatorRecords>();
  FakeCluster cluster(1, {}, make_memory_store(records));
  fill(cluster);
  cluster.submit(make_job(0));
  REQUIRE(cluster.run_until([&] { return cluster.at("w1").worker.clock() > 10; }));
  *records = {};
  cluster.options.session = 12345;
  cluster.restart_coordinator(1s);
  cluster.run_for(3s);
  CHECK_FALSE(cluster.at("w0").worker.job());
  CHECK(cluster.at("s0").server.report().jobs().empty());
  const std::uint64_t job = cluster.submit(make_job(2, 10)).job();
  CHECK(cluster.run_until_state(job, pb::DONE));
}

TEST_CASE("a queued job for every worker waits until all had time to return",
          "[coordinator][store]") {
  FakeCluster cluster;
  fill(cluster);
  const std::uint64_t first = cluster.submit(make_job(0)).job();
  REQUIRE(cluster.run_until([&] { return cluster.at("w1").worker.clock() > 10; }));
  const std::uint64_t second = cluster.submit(make_job(0, 100)).job();
  CHECK(cluster.stop(first).error().empty());
  cluster.restart_coordinator(1s);
  cluster.run_for(10s);
  CHECK(cluster.status(first).state() == pb::STOPPED);
  CHECK(cluster.status(second).state() == pb::SUBMITTED);
  CHECK(cluster.run_until_state(second, pb::DONE));
  CHECK(cluster.status(second).workers_size() == 2);
}

TEST_CASE(
    "a job that is submitted before the processes have returned from a restart waits for them",
    "[coordinator][store]") {
  FakeCluster cluster;
  fill(cluster);
  SECTION("they return") {
    cluster.restart_coordinator(1s);
    const pb::SubmitReply two = cluster.submit(make_job(2, 10));
    CHECK(two.error().empty());
    CHECK(two.message() == "waits for a server to join");
    const pb::SubmitReply all = cluster.submit(make_job(0, 10));
    CHECK(all.error().empty());
    CHECK(all.message() == "waits for the workers to reconnect after the coordinator's restart");
    REQUIRE(cluster.run_until_state(two.job(), pb::DONE));
    REQUIRE(cluster.run_until_state(all.job(), pb::DONE));
    CHECK(cluster.status(all.job()).workers_size() == 2);
  }
  SECTION("only servers return") {
    for (const char* name : {"w0", "w1"}) cluster.kill(name);
    cluster.restart_coordinator(1s);
    cluster.run_for(3s);
    CHECK(cluster.submit(make_job(1)).error().empty());
    cluster.run_for(14s);
    CHECK_THAT(cluster.submit(make_job(1)).error(), StartsWith("no worker has joined"));
  }
  SECTION("none returns") {
    for (const char* name : {"s0", "s1", "w0", "w1"}) cluster.kill(name);
    cluster.restart_coordinator(1s);
    const std::uint64_t job = cluster.submit(make_job(1)).job();
    REQUIRE(job != 0);
    cluster.run_for(17s);
    CHECK(cluster.status(job).message() == "waits for a server to join");
    CHECK_THAT(cluster.submit(make_job(1)).error(), StartsWith("no server with shards has joined"));
  }
  CHECK(cluster.broken().empty());
}

TEST_CASE("after a restart a queued job waits until the rest of an idle cluster is back",
          "[coordinator][store]") {
  FakeCluster cluster;
  fill(cluster);
  for (const char* name : {"s1", "w1"}) cluster.at(name).cut_off = true;
  cluster.restart_coordinator(1s);
  pb::Job definition = make_job(2);
  definition.set_min_workers(1);
  const std::uint64_t job = cluster.submit(definition).job();
  REQUIRE(cluster.run_until([&] { return listed(cluster) == 2; }));
  const TimePoint joined = cluster.now();
  bool returns = true;
  SECTION("at the next heartbeat") {
    for (const char* name : {"s1", "w1"}) cluster.at(name).cut_off = false;
  }
  SECTION("after a pause of the coordinator") {
    for (const char* name : {"s1", "w1"}) cluster.at(name).cut_off = false;
    cluster.pause_coordinator(10s);
  }
  SECTION("or for two heartbeats where it does not return") {
    returns = false;
    cluster.run_for(500ms);
    CHECK(cluster.status(job).state() == pb::SUBMITTED);
    CHECK(cluster.status(job).message() ==
          "waits for further processes to reconnect after the coordinator's restart");
  }
  REQUIRE(cluster.run_until_state(job, pb::RUNNING));
  CHECK(cluster.status(job).workers_size() == (returns ? 2 : 1));
  if (!returns) {
    CHECK(cluster.now() - joined >= 1s);
    CHECK(cluster.now() - joined < 2s);
  }
  REQUIRE(cluster.run_until([&] { return cluster.at("w0").worker.job().has_value(); }));
  CHECK(cluster.at("w0").worker.job()->shards_size() == (returns ? 2 : 1));
  CHECK(cluster.broken().empty());
}

TEST_CASE("a job starts at once where no process is about to return", "[coordinator][store]") {
  FakeCluster cluster;
  SECTION("as the coordinator never had any") {
    cluster.add_server("s0");
    cluster.add_worker("w0");
    REQUIRE(cluster.run_until([&] { return listed(cluster) == 2; }));
  }
  SECTION("as all that its state names are back") {
    fill(cluster);
    cluster.add_worker("w2");
    cluster.run_for(1s);
    REQUIRE(cluster.run_until_state(cluster.submit(make_job(2)).job(), pb::RUNNING));
    cluster.restart_coordinator(1s);
    cluster.run_for(700ms);
    REQUIRE(listed(cluster) == 5);
  }
  const std::uint64_t job = cluster.submit(make_job(1)).job();
  CHECK(cluster.status(job).state() == pb::RUNNING);
}

TEST_CASE("a process that was to be drained is, though the coordinator restarts before it knows",
          "[coordinator][store]") {
  const auto saved = std::make_shared<CoordinatorRecords>();
  FakeCluster cluster(1, {}, make_memory_store(saved));
  fill(cluster);
  // One of the workers is idle.
  const bool is_server = GENERATE(true, false);
  if (!is_server) REQUIRE(cluster.run_until_state(cluster.submit(make_job(1)).job(), pb::RUNNING));
  const std::vector<std::string> names =
      is_server ? std::vector<std::string>{"s1"} : std::vector<std::string>{"w0", "w1"};
  const auto leaving = [&cluster] {
    pb::ControlMessage request;
    request.mutable_status_request();
    const pb::StatusReply reply = cluster.ask(request).status_reply();
    std::vector<std::string> found;
    for (const auto& server : reply.servers()) {
      if (server.leaves()) found.push_back(server.name());
    }
    for (const auto& worker : reply.workers()) {
      if (worker.leaves()) found.push_back(worker.name());
    }
    return found;
  };
  const auto was_notified = [&cluster](const std::string& name) {
    return std::ranges::any_of(cluster.at(name).events, [](const ControlEvent& event) {
      return std::holds_alternative<control_event::Leave>(event);
    });
  };
  for (const std::string& name : names) {
    pb::ControlMessage request;
    request.mutable_drain()->set_name(name);
    REQUIRE(cluster.ask(request).command_reply().error().empty());
  }
  cluster.restart_coordinator(1s);
  for (const std::string& name : names) REQUIRE_FALSE(was_notified(name));
  cluster.run_for(3s);
  CHECK(leaving() == names);
  for (const std::string& name : names) CHECK(was_notified(name));
  CHECK(saved->counters.leaving_size() == static_cast<int>(names.size()));
  // Another process of the same name stays.
  const std::string last = names.back();
  cluster.kill(last);
  cluster.run_for(20s);
  if (is_server) {
    cluster.add_server(last);
  } else {
    cluster.add_worker(last);
  }
  cluster.run_for(1s);
  CHECK(std::ranges::count(leaving(), last) == 0);
  CHECK(saved->counters.leaving_size() == static_cast<int>(names.size()) - 1);
}

TEST_CASE("a process that was to be drained and has ended while no coordinator ran is forgotten",
          "[coordinator][store]") {
  const auto saved = std::make_shared<CoordinatorRecords>();
  FakeCluster cluster(1, {}, make_memory_store(saved));
  fill(cluster);
  pb::ControlMessage request;
  request.mutable_drain()->set_name("w1");
  REQUIRE(cluster.ask(request).command_reply().error().empty());
  cluster.kill("w1");
  cluster.restart_coordinator(1s);
  cluster.run_for(10s);
  CHECK(saved->counters.leaving_size() == 1);
  cluster.run_for(10s);
  CHECK(saved->counters.leaving_size() == 0);
}

TEST_CASE("a job of which a record has lost every member ends as one whose workers are lost",
          "[coordinator][store]") {
  const auto saved = std::make_shared<CoordinatorRecords>();
  FakeCluster cluster(1, {}, make_memory_store(saved));
  fill(cluster);
  const std::uint64_t job = cluster.submit(make_job(2, 2000)).job();
  REQUIRE(cluster.run_until_state(job, pb::RUNNING));
  for (const char* name : {"w0", "w1"}) cluster.kill(name);
  saved->jobs.at(JobId(job)).clear_members();
  REQUIRE(damage_of(JobId(job), saved->jobs.at(JobId(job))).empty());
  cluster.restart_coordinator(1s);
  REQUIRE(cluster.run_until([&] { return cluster.status(job).state() == pb::FAILED; }, 200s));
  CHECK_THAT(cluster.status(job).message(), Contains("every worker was lost"));
}

}  // namespace taut
