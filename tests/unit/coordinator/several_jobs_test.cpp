// Jobs side by side on one cluster, each with its own workers.
#include <cmath>

#include "tests/support/catch.hpp"
#include "tests/unit/coordinator/fake_cluster.hpp"

using namespace std::chrono_literals;
using Catch::Matchers::Contains;

namespace taut {
namespace {

class Jobs : public FakeCluster {
 public:
  explicit Jobs(int workers, bool preempts = false, std::uint64_t seed = 1,
                FakeNetwork network = {})
      : FakeCluster(seed, network) {
    options.scheduling.set_preemption(preempts);
    restart_coordinator(1ms);
    for (int i = 0; i < 2; ++i) add_server("s" + std::to_string(i), 2);
    for (int i = 0; i < workers; ++i) add_worker("w" + std::to_string(i));
    run_for(1s);
  }

  std::uint64_t start(const pb::Job& definition) {
    const std::uint64_t job = submit(definition).job();
    REQUIRE(run_until_state(job, pb::RUNNING));
    return job;
  }

  pb::CommandReply change(std::uint64_t job, std::optional<bool> held,
                          std::optional<std::int32_t> priority = {}) {
    pb::ControlMessage request;
    request.mutable_change_queue()->set_job(job);
    if (held) request.mutable_change_queue()->set_held(*held);
    if (priority) request.mutable_change_queue()->set_priority(*priority);
    return ask(request).command_reply();
  }

  /// The names of the workers that work for a job.
  std::set<std::string> workers_of(std::uint64_t job) {
    std::set<std::string> names;
    const pb::JobStatus now = status(job);
    for (const pb::WorkerStatus& worker : now.workers()) {
      if (worker.state() == pb::PROCESS_RUNNING) names.insert(worker.name());
    }
    return names;
  }
};

using Names = std::set<std::string>;
using Numbers = std::vector<std::uint64_t>;

TEST_CASE("two jobs train side by side, each with its own workers", "[coordinator][queue]") {
  Jobs cluster(4);
  const std::uint64_t first = cluster.start(make_job(2));
  const std::uint64_t second = cluster.start(make_job(2));
  CHECK(cluster.workers_of(first) == Names{"w0", "w1"});
  CHECK(cluster.workers_of(second) == Names{"w2", "w3"});
  const auto clock = [&](std::uint64_t job) {
    return cluster.status(job).workers(0).progress().clock();
  };
  REQUIRE(cluster.run_until([&] { return clock(first) > 20 && clock(second) > 20; }));
  // A loss concerns its own job alone, and another's workers do not fill the place.
  cluster.kill("w0");
  REQUIRE(cluster.run_until([&] { return cluster.workers_of(first) == Names{"w1"}; }));
  CHECK(cluster.workers_of(second) == Names{"w2", "w3"});
  cluster.add_worker("w4");
  REQUIRE(cluster.run_until([&] { return cluster.workers_of(first) == Names{"w1", "w4"}; }));
  REQUIRE(cluster.stop(second).error().empty());
  REQUIRE(cluster.run_until_state(second, pb::STOPPED));
  CHECK(cluster.status(first).state() == pb::RUNNING);
  CHECK(cluster.broken().empty());
}

TEST_CASE("a worker that has finished writes its part of a checkpoint before it gets another job",
          "[coordinator][queue][checkpoint]") {
  Jobs cluster(2);
  constexpr std::int32_t kClocks = 50;
  pb::Job definition = make_job(2, kClocks);
  definition.mutable_consistency()->clear_slack();
  definition.mutable_consistency()->set_mode(pb::Consistency::ASYNC);
  definition.mutable_compression()->add_push()->set_scheme(pb::PushCompression::TOP_K);
  definition.mutable_checkpoint()->set_folder("saved");
  definition.mutable_solver_param()->set_snapshot_after_train(true);
  const std::uint64_t first = cluster.start(definition);
  cluster.at("w1").worker.stuck = true;
  REQUIRE(
      cluster.run_until([&] { return cluster.at("w0").worker.report().progress().finished(); }));
  cluster.run_for(1s);
  const std::uint64_t second = cluster.submit(make_job(1, kClocks)).job();
  cluster.run_for(2s);
  CHECK(cluster.status(second).state() == pb::SUBMITTED);
  CHECK(cluster.status(first).state() == pb::RUNNING);
  cluster.at("w0").worker.saved = 1;
  REQUIRE(cluster.run_until_state(second, pb::DONE));
  CHECK(cluster.status(second).workers(0).progress().clock() == kClocks);
  CHECK(cluster.status(first).state() == pb::RUNNING);
  cluster.at("w1").worker.stuck = false;
  cluster.at("w1").worker.saved = 1;
  REQUIRE(cluster.run_until_state(first, pb::DONE));
  CHECK(cluster.status(first).checkpoints_size() == 1);
  CHECK(cluster.broken().empty());
}

TEST_CASE("a job gets workers of one rack, and replaces one by the nearest",
          "[coordinator][queue]") {
  Jobs cluster(0);
  const auto add = [&cluster](const char* name, const char* host) {
    cluster.add_worker(name, FakeCluster::Offer{.host = host});
  };
  add("w0", "left/a");
  add("w1", "right/b");
  add("w2", "left/c");
  add("w3", "right/d");
  add("w4", "left/e");
  cluster.run_for(1s);
  pb::Job definition = make_job(2);
  const std::uint64_t first = cluster.start(definition);
  CHECK(cluster.workers_of(first) == Names{"w1", "w3"});
  definition.set_workers(3);
  const std::uint64_t second = cluster.start(definition);
  CHECK(cluster.workers_of(second) == Names{"w0", "w2", "w4"});
  REQUIRE(cluster.stop(first).error().empty());
  REQUIRE(cluster.run_until_state(first, pb::STOPPED));
  add("w5", "left/e");
  cluster.run_for(1s);
  // Three are idle: two of the other rack, and one of a host that the job has.
  cluster.kill("w0");
  REQUIRE(cluster.run_until([&] { return cluster.workers_of(second).contains("w5"); }));
  CHECK(cluster.workers_of(second) == Names{"w2", "w4", "w5"});
  CHECK(cluster.broken().empty());
}

TEST_CASE("both jobs continue when the coordinator restarts", "[coordinator][queue][store]") {
  Jobs cluster(4);
  const std::uint64_t first = cluster.start(make_job(2, 200));
  const std::uint64_t second = cluster.start(make_job(2, 200));
  cluster.restart_coordinator(1s);
  REQUIRE(cluster.run_until_state(first, pb::DONE));
  REQUIRE(cluster.run_until_state(second, pb::DONE));
  CHECK(cluster.status(first).message().empty());
  CHECK(cluster.broken().empty());
}

TEST_CASE("a job waits for workers of several jobs, and starts when enough are idle",
          "[coordinator][queue]") {
  Jobs cluster(4);
  const std::uint64_t first = cluster.start(make_job(2));
  const std::uint64_t second = cluster.start(make_job(1));
  const std::uint64_t third = cluster.submit(make_job(3)).job();
  CHECK(cluster.status(third).message() == "waits for workers of jobs 1, 2");
  CHECK(cluster.status(third).required_workers() == 3);
  // The idle worker is reserved for it.
  const std::uint64_t fourth = cluster.submit(make_job(1)).job();
  cluster.run_for(2s);
  CHECK(cluster.status(fourth).message() == "waits for job 3, which goes before it");
  REQUIRE(cluster.stop(first).error().empty());
  REQUIRE(cluster.run_until_state(third, pb::RUNNING));
  CHECK(cluster.status(fourth).message() == "waits for workers of jobs 2, 3");
  REQUIRE(cluster.stop(second).error().empty());
  REQUIRE(cluster.run_until_state(fourth, pb::RUNNING));
}

TEST_CASE("a short job starts before one that waits for more workers", "[coordinator][queue]") {
  Jobs cluster(2);
  pb::Job definition = make_job(1);
  definition.set_expected_s(100);
  const std::uint64_t first = cluster.start(definition);
  const std::uint64_t second = cluster.submit(make_job(2)).job();
  definition = make_job(1, 30);
  definition.set_expected_s(10);
  const std::uint64_t third = cluster.submit(definition).job();
  REQUIRE(cluster.run_until_state(third, pb::DONE));
  CHECK(cluster.status(second).state() == pb::SUBMITTED);
  REQUIRE(cluster.stop(first).error().empty());
  CHECK(cluster.run_until_state(second, pb::RUNNING));
}

TEST_CASE("a job that is held waits until it is released", "[coordinator][queue]") {
  Jobs cluster(2);
  const std::uint64_t first = cluster.start(make_job(2));
  const std::uint64_t second = cluster.submit(make_job(2)).job();
  const std::uint64_t third = cluster.submit(make_job(2)).job();
  CHECK(cluster.change(second, true).message() == "job 2 is held");
  CHECK(cluster.status(second).held());
  CHECK(cluster.status(second).message() == "is held; tautline release 2 lets it start");
  CHECK_THAT(cluster.change(first, true).error(), Contains("job 1 is running"));
  cluster.restart_coordinator(1s);
  REQUIRE(cluster.stop(first).error().empty());
  REQUIRE(cluster.run_until_state(third, pb::RUNNING));
  REQUIRE(cluster.stop(third).error().empty());
  REQUIRE(cluster.run_until_state(third, pb::STOPPED));
  cluster.run_for(2s);
  CHECK(cluster.status(second).state() == pb::SUBMITTED);
  CHECK(cluster.change(second, false).error().empty());
  CHECK(cluster.run_until_state(second, pb::RUNNING));
  CHECK_THAT(cluster.change(77, true).error(), Contains("job 77 does not exist"));
  CHECK_THAT(cluster.change(second, {}, 1001).error(), Contains("is 1001"));
}

TEST_CASE("the higher priority goes first, and can be changed", "[coordinator][queue]") {
  Jobs cluster(2);
  const std::uint64_t first = cluster.start(make_job(2));
  const std::uint64_t second = cluster.submit(make_job(2)).job();
  pb::Job definition = make_job(2);
  definition.set_priority(-3);
  const std::uint64_t third = cluster.submit(definition).job();
  CHECK(cluster.change(third, {}, 4).message() == "job 3 has priority 4 instead of -3");
  REQUIRE(cluster.stop(first).error().empty());
  REQUIRE(cluster.run_until_state(third, pb::RUNNING));
  CHECK(cluster.status(second).state() == pb::SUBMITTED);
}

TEST_CASE("a job of higher priority gets the workers of another, which continues later",
          "[coordinator][queue]") {
  Jobs cluster(2, true);
  const std::uint64_t low = cluster.start(make_job(2, 5000));
  REQUIRE(
      cluster.run_until([&] { return cluster.status(low).workers(0).progress().clock() > 20; }));
  pb::Job definition = make_job(2, 100);
  definition.set_priority(1);
  const std::uint64_t high = cluster.submit(definition).job();
  REQUIRE(cluster.run_until_state(high, pb::RUNNING));
  const pb::JobStatus stopped = cluster.status(low);
  CHECK(stopped.state() == pb::STOPPED);
  CHECK_THAT(stopped.message(),
             Contains("makes room for a job of higher priority; saved at clock "));
  const std::uint64_t rest = stopped.restarted_as();
  REQUIRE(rest == high + 1);
  CHECK(cluster.status(rest).message() == "waits for job 2 to end");
  REQUIRE(cluster.run_until_state(high, pb::DONE));
  REQUIRE(cluster.run_until_state(rest, pb::RUNNING));
  CHECK(cluster.status(rest).resume().clock() == stopped.checkpoints(0).clock());
  CHECK(cluster.broken().empty());
}

TEST_CASE("a job that made room is expected to train for the rest of its time alone",
          "[coordinator][queue]") {
  Jobs cluster(2, true);
  pb::Job definition = make_job(2, 5000);
  definition.set_expected_s(1000);
  const std::uint64_t low = cluster.start(definition);
  REQUIRE(
      cluster.run_until([&] { return cluster.status(low).workers(0).progress().clock() > 20; }));
  definition.set_priority(1);
  REQUIRE(cluster.run_until_state(cluster.submit(definition).job(), pb::RUNNING));
  pb::ControlMessage request;
  request.mutable_status_request()->set_job(cluster.status(low).restarted_as());
  request.mutable_status_request()->set_definition(true);
  const pb::ControlMessage answer = cluster.ask(request);
  REQUIRE(answer.status_reply().jobs_size() == 1);
  const pb::JobStatus& rest = answer.status_reply().jobs(0);
  CHECK(rest.resume().clock() > 20);
  const double expected = 1000.0 * static_cast<double>(5000 - rest.resume().clock()) / 5000;
  CHECK(std::abs(rest.definition().expected_s() - expected) < 1e-6);
}

TEST_CASE("a job of the same priority waits, and so does any where pre-emption is off",
          "[coordinator][queue]") {
  const bool preempts = GENERATE(false, true);
  Jobs cluster(2, preempts);
  const std::uint64_t first = cluster.start(make_job(2));
  pb::Job definition = make_job(2);
  definition.set_priority(preempts ? 0 : 5);
  const std::uint64_t second = cluster.submit(definition).job();
  cluster.run_for(3s);
  CHECK(cluster.status(first).state() == pb::RUNNING);
  CHECK(cluster.status(second).state() == pb::SUBMITTED);
}

TEST_CASE("a user who stops a job that makes room stops it for good", "[coordinator][queue]") {
  Jobs cluster(2, true);
  const std::uint64_t low = cluster.start(make_job(2));
  cluster.at("s0").server.stalls = true;  // its checkpoint takes a while
  pb::Job definition = make_job(2);
  definition.set_priority(1);
  const std::uint64_t high = cluster.submit(definition).job();
  cluster.run_for(1s);
  REQUIRE(cluster.status(low).state() == pb::RUNNING);
  REQUIRE(cluster.stop(low).error().empty());
  REQUIRE(cluster.run_until_state(low, pb::STOPPED));
  REQUIRE(cluster.run_until_state(high, pb::RUNNING));
  CHECK(cluster.status(low).restarted_as() == 0);
}

/// A job that may have `least` to `most` workers.
pb::Job elastic_job(std::uint32_t least, std::uint32_t most, std::int32_t max_iter = 20000) {
  pb::Job definition = make_job(most, max_iter);
  definition.set_min_workers(least);
  return definition;
}

pb::Job with_priority(pb::Job definition, std::int32_t priority) {
  definition.set_priority(priority);
  return definition;
}

TEST_CASE("a job that cannot be saved makes no room until it can be", "[coordinator][queue]") {
  Jobs cluster(2, true);
  const std::uint64_t low = cluster.start(make_job(2));
  const auto clock = [&] { return cluster.status(low).workers(0).progress().clock(); };
  REQUIRE(cluster.run_until([&] { return clock() > 20; }));
  SECTION("a disk is full") {
    cluster.at("s0").server.disk = "the disk is full";
  }
  SECTION("it takes too long") {
    cluster.options.save_limit = 5s;
    cluster.restart_coordinator(1s);
    cluster.run_for(2s);
    cluster.at("s0").server.stalls = true;
  }
  const std::uint64_t high = cluster.submit(with_priority(make_job(2, 100), 1)).job();
  REQUIRE(cluster.run_until(
      [&] { return cluster.status(low).message().find("makes no room") != std::string::npos; }));
  // It trains on, with all that it has trained.
  const std::int64_t before = clock();
  REQUIRE(cluster.run_until([&] { return clock() > before + 20; }));
  CHECK(cluster.status(low).state() == pb::RUNNING);
  CHECK(cluster.status(high).state() == pb::SUBMITTED);
  cluster.at("s0").server.disk.clear();
  cluster.at("s0").server.stalls = false;
  REQUIRE(cluster.run_until([&] { return cluster.status(high).state() == pb::RUNNING; }, 90s));
  const pb::JobStatus stopped = cluster.status(low);
  CHECK(stopped.state() == pb::STOPPED);
  CHECK_THAT(stopped.message(), Contains("saved at clock "));
  REQUIRE(stopped.restarted_as() != 0);
  CHECK(cluster.status(stopped.restarted_as()).resume().clock() > before);
  CHECK(cluster.broken().empty());
}

TEST_CASE("a job of higher priority gets workers of an elastic one, which gets them back",
          "[coordinator][queue]") {
  Jobs cluster(3);
  const std::uint64_t low = cluster.start(elastic_job(1, 3, 3000));
  REQUIRE(cluster.workers_of(low) == Names{"w0", "w1", "w2"});
  const auto clock = [&] {
    const pb::JobStatus now = cluster.status(low);
    std::int64_t highest = 0;
    for (const auto& worker : now.workers()) {
      highest = std::max(highest, worker.progress().clock());
    }
    return highest;
  };
  REQUIRE(cluster.run_until([&] { return clock() > 20; }));
  const std::uint64_t high = cluster.submit(with_priority(make_job(2), 1)).job();
  REQUIRE(cluster.run_until([&] { return cluster.status(low).workers(2).progress().left(); }, 2s));
  REQUIRE(cluster.run_until([&] { return cluster.status(high).state() == pb::RUNNING; }, 1s));
  CHECK(cluster.workers_of(low) == Names{"w0"});
  CHECK(cluster.workers_of(high) == Names{"w1", "w2"});
  CHECK(std::ranges::count_if(cluster.notes, [](const std::string& note) {
          return note ==
                 "job 1: shrinks to 1 worker for a job of higher priority: \"w2\", \"w1\" leave it";
        }) == 1);
  const std::int64_t before = clock();
  REQUIRE(cluster.run_until([&] { return clock() > before + 20; }));
  REQUIRE(cluster.stop(high).error().empty());
  REQUIRE(cluster.run_until([&] { return cluster.workers_of(low).size() == 3; }));
  // Nothing was saved, and nothing begins again.
  CHECK(cluster.status(low).checkpoints().empty());
  REQUIRE(cluster.run_until_state(low, pb::DONE));
  CHECK(cluster.status(low).message().empty());
  CHECK(cluster.broken().empty());
}

TEST_CASE("a job shrinks while messages are lost and the coordinator restarts",
          "[coordinator][queue]") {
  for (std::uint64_t seed = 1; seed <= 10; ++seed) {
    CAPTURE(seed);
    FakeNetwork network;
    network.drop = 0.2;
    network.duplicate = 0.2;
    network.delay_max = 200ms;
    Jobs cluster(4, false, seed, network);
    REQUIRE(cluster.run_until([&] { return cluster.submit(elastic_job(2, 4), 7).job() == 1; }));
    REQUIRE(cluster.run_until([&] { return cluster.workers_of(1).size() == 4; }));
    const std::uint64_t high = cluster.submit(with_priority(make_job(2), 1)).job();
    cluster.run_for(std::chrono::milliseconds(100 * seed));
    cluster.restart_coordinator(1s);
    REQUIRE(cluster.run_until_state(high, pb::RUNNING));
    CHECK(cluster.workers_of(1).size() == 2);
    CHECK(cluster.workers_of(high).size() == 2);
    REQUIRE(cluster.stop(high).error().empty());
    REQUIRE(cluster.run_until([&] { return cluster.workers_of(1).size() == 4; }));
    CHECK(cluster.broken() == std::vector<std::string>());
  }
}

TEST_CASE("after a restart no job shrinks before the processes that it has are back",
          "[coordinator][queue][store]") {
  Jobs cluster(3);
  const std::uint64_t low = cluster.start(elastic_job(1, 2));
  REQUIRE(cluster.workers_of(low) == Names{"w0", "w1"});
  cluster.at("w1").cut_off = true;
  cluster.restart_coordinator(1s);
  cluster.run_for(2s);
  const std::uint64_t high = cluster.submit(with_priority(make_job(2), 1)).job();
  CHECK(cluster.status(high).message() ==
        "waits for processes of running jobs to reconnect after the coordinator's restart");
  cluster.run_for(5s);
  CHECK(cluster.workers_of(low) == Names{"w0", "w1"});
  CHECK(cluster.status(high).state() == pb::SUBMITTED);
  cluster.at("w1").cut_off = false;
  REQUIRE(cluster.run_until_state(high, pb::RUNNING));
  CHECK(cluster.workers_of(low).size() == 1);
  CHECK(cluster.broken().empty());
}

TEST_CASE("after a restart processes have the same time to return when the coordinator pauses",
          "[coordinator][queue][store]") {
  Jobs cluster(3);
  const std::uint64_t low = cluster.start(elastic_job(1, 2));
  REQUIRE(cluster.workers_of(low) == Names{"w0", "w1"});
  cluster.at("w1").cut_off = true;
  cluster.restart_coordinator(1s);
  cluster.run_for(2s);
  const std::uint64_t high = cluster.submit(with_priority(make_job(2), 1)).job();
  cluster.pause_coordinator(10s);
  // The limit is past, and this coordinator has run for half of it.
  cluster.run_for(6s);
  CHECK(cluster.status(high).message() ==
        "waits for processes of running jobs to reconnect after the coordinator's restart");
  CHECK(cluster.workers_of(low) == Names{"w0", "w1"});
  cluster.at("w1").cut_off = false;
  REQUIRE(cluster.run_until_state(high, pb::RUNNING));
  CHECK(cluster.workers_of(low).size() == 1);
  CHECK(cluster.broken().empty());
}

TEST_CASE("the queue is shown by priority before the processes are back after a restart",
          "[coordinator][queue][store]") {
  Jobs cluster(2);
  cluster.start(make_job(2));
  cluster.at("w1").cut_off = true;
  cluster.restart_coordinator(1s);
  cluster.run_for(2s);
  const std::uint64_t second = cluster.submit(make_job(2)).job();
  const std::uint64_t third = cluster.submit(with_priority(make_job(2), 1)).job();
  CHECK(cluster.status(third).place() == 1);
  CHECK(cluster.status(second).place() == 2);
}

TEST_CASE("after a restart no job is placed before the servers of others are back",
          "[coordinator][queue][store]") {
  Jobs cluster(3);
  cluster.start(make_job(2));
  cluster.at("s1").cut_off = true;
  cluster.restart_coordinator(1s);
  cluster.run_for(2s);
  const std::uint64_t second = cluster.submit(make_job(1)).job();
  cluster.run_for(3s);
  CHECK(cluster.status(second).state() == pb::SUBMITTED);
  cluster.at("s1").cut_off = false;
  REQUIRE(cluster.run_until([&] { return cluster.at("w2").worker.job().has_value(); }));
  CHECK(cluster.at("w2").worker.job()->shards_size() == 4);
  CHECK(cluster.broken().empty());
}

TEST_CASE("after a restart no job makes room while idle workers may yet return",
          "[coordinator][queue][store]") {
  Jobs cluster(4, true);
  const std::uint64_t low = cluster.start(make_job(2));
  REQUIRE(cluster.workers_of(low) == Names{"w0", "w1"});
  for (const char* name : {"w2", "w3"}) cluster.at(name).cut_off = true;
  cluster.restart_coordinator(1s);
  cluster.run_for(2s);
  const std::uint64_t high = cluster.submit(with_priority(make_job(2), 1)).job();
  cluster.run_for(3s);
  for (const char* name : {"w2", "w3"}) cluster.at(name).cut_off = false;
  REQUIRE(cluster.run_until_state(high, pb::RUNNING));
  CHECK(cluster.workers_of(high) == Names{"w2", "w3"});
  CHECK(cluster.status(low).state() == pb::RUNNING);
  CHECK(cluster.status(low).checkpoints().empty());
  CHECK(cluster.broken().empty());
}

TEST_CASE("no job shrinks for one of its own priority, or where shrinking is off",
          "[coordinator][queue]") {
  const bool shrinks = GENERATE(false, true);
  Jobs cluster(2);
  cluster.options.scheduling.set_shrinking(shrinks);
  cluster.restart_coordinator(1s);
  // Before that no job shrinks at all.
  cluster.run_for(cluster.options.heartbeat_limit + 1s);
  const std::uint64_t first = cluster.start(elastic_job(1, 2));
  const std::uint64_t second = cluster.submit(with_priority(make_job(1), shrinks ? 0 : 5)).job();
  cluster.run_for(5s);
  CHECK(cluster.workers_of(first).size() == 2);
  CHECK(cluster.status(second).message() == "waits for job 1 to end");
}

TEST_CASE("a job shrinks before another one is saved and stopped", "[coordinator][queue]") {
  Jobs cluster(4, true);
  const std::uint64_t rigid = cluster.start(make_job(2));
  const std::uint64_t elastic = cluster.start(elastic_job(1, 2));
  const std::uint64_t high = cluster.submit(with_priority(make_job(1), 1)).job();
  REQUIRE(cluster.run_until_state(high, pb::RUNNING));
  CHECK(cluster.status(rigid).state() == pb::RUNNING);
  CHECK(cluster.workers_of(elastic).size() == 1);
}

TEST_CASE("idle workers go to a job that waits before a running one grows",
          "[coordinator][queue]") {
  Jobs cluster(2);
  const std::uint64_t first = cluster.start(elastic_job(1, 4));
  const std::uint64_t second = cluster.submit(make_job(2)).job();
  cluster.add_worker("w2");
  cluster.run_for(3s);
  // It has reserved the first of them.
  CHECK(cluster.workers_of(first).size() == 2);
  cluster.add_worker("w3");
  REQUIRE(cluster.run_until_state(second, pb::RUNNING));
  cluster.add_worker("w4");
  CHECK(cluster.run_until([&] { return cluster.workers_of(first).size() == 3; }));
}

pb::Quota quota_of(const char* user, std::uint32_t workers, std::uint32_t jobs) {
  pb::Quota quota;
  if (user != nullptr) quota.set_user(user);
  quota.set_workers(workers);
  quota.set_jobs(jobs);
  return quota;
}

TEST_CASE("a job that exceeds its user's quota waits, says so and holds up no other",
          "[coordinator][queue]") {
  Jobs cluster(6);
  *cluster.options.scheduling.add_quota() = quota_of("alice", 3, 2);
  *cluster.options.scheduling.add_quota() = quota_of(nullptr, 0, 1);
  cluster.restart_coordinator(1s);
  cluster.run_for(1s);
  const auto submit = [&](const char* user, const pb::Job& definition) {
    return cluster.submit(definition, 0, user).job();
  };
  const std::uint64_t first = submit("alice", make_job(2));
  const std::uint64_t second = submit("alice", make_job(2));
  const std::uint64_t third = submit("alice", make_job(1));
  const std::uint64_t fourth = submit("alice", make_job(1));
  const std::uint64_t fifth = submit("bob", make_job(1));
  const std::uint64_t sixth = submit("bob", make_job(1));
  const std::uint64_t seventh = submit("", make_job(1));
  const std::uint64_t eighth = submit("alice", make_job(4));
  REQUIRE(cluster.run_until_state(seventh, pb::RUNNING));
  CHECK(cluster.status(first).state() == pb::RUNNING);
  CHECK(cluster.status(third).state() == pb::RUNNING);
  CHECK(cluster.status(fifth).state() == pb::RUNNING);
  CHECK(cluster.status(first).user() == "alice");
  CHECK(cluster.status(second).message() ==
        "user \"alice\" has 2 jobs running, and the quota is 2");
  CHECK(cluster.status(fourth).message() == cluster.status(second).message());
  CHECK(cluster.status(sixth).message() == "user \"bob\" has 1 job running, and the quota is 1");
  CHECK(cluster.status(second).place() == 1);
  CHECK(cluster.status(sixth).place() == 3);
  CHECK(cluster.status(first).place() == 0);
  REQUIRE(cluster.stop(third).error().empty());
  REQUIRE(cluster.run_until_state(fourth, pb::RUNNING));
  REQUIRE(cluster.stop(fourth).error().empty());
  REQUIRE(cluster.run_until_state(fourth, pb::STOPPED));
  cluster.run_for(1s);
  CHECK(cluster.status(second).message() ==
        "requires 2 workers, and user \"alice\" has 2 of the quota of 3");
  CHECK(cluster.status(eighth).message() ==
        "requires 4 workers, and the quota of user \"alice\" is 3: it cannot start");
  REQUIRE(cluster.stop(first).error().empty());
  REQUIRE(cluster.run_until_state(second, pb::RUNNING));
  // A user without a name has a quota too.
  const std::uint64_t ninth = submit("", make_job(1));
  cluster.run_for(1s);
  CHECK(cluster.status(ninth).message() == "this user has 1 job running, and the quota is 1");
}

TEST_CASE("a job that takes every worker takes those of its user's quota", "[coordinator][queue]") {
  Jobs cluster(4);
  *cluster.options.scheduling.add_quota() = quota_of("alice", 3, 0);
  cluster.restart_coordinator(1s);
  cluster.run_for(1s);
  const std::uint64_t job = cluster.submit(make_job(0), 0, "alice").job();
  REQUIRE(cluster.run_until_state(job, pb::RUNNING));
  CHECK(cluster.workers_of(job).size() == 3);
}

TEST_CASE("jobs get workers with the devices and the memory that they require",
          "[coordinator][queue]") {
  constexpr std::uint64_t kGib = 1UL << 30U;
  Jobs cluster(0);
  for (int i = 0; i < 4; ++i) {
    cluster.add_worker("w" + std::to_string(i), {i < 2 ? "a" : "b", 10 * kGib, i < 2 ? 0U : 1U});
  }
  cluster.run_for(1s);
  pb::Job definition = make_job(1);
  definition.mutable_resources()->set_devices(1);
  definition.mutable_resources()->set_memory(6 * kGib);
  const std::uint64_t first = cluster.start(definition);
  CHECK(cluster.workers_of(first) == Names{"w2"});
  // The other worker of that host has 4 GiB left.
  const std::uint64_t second = cluster.submit(definition).job();
  definition.mutable_resources()->clear_devices();
  const std::uint64_t third = cluster.start(definition);
  CHECK(cluster.workers_of(third) == Names{"w0"});
  CHECK(cluster.status(second).message() ==
        "waits for 1 worker with 1 GPU and 6.0 GiB of memory each; 0 of them are idle");
  CHECK(cluster.status(second).max_workers() == 1);
  definition.set_workers(3);
  const std::uint64_t fourth = cluster.submit(definition).job();
  definition.mutable_resources()->set_memory(20 * kGib);
  const std::uint64_t fifth = cluster.submit(definition).job();
  definition.mutable_resources()->clear_memory();
  definition.mutable_resources()->set_devices(2);
  const std::uint64_t sixth = cluster.submit(definition).job();
  cluster.run_for(1s);
  CHECK(cluster.status(fourth).message() ==
        "requires 3 workers with 6.0 GiB of memory, and all workers together have room for 2");
  CHECK(cluster.status(fifth).message() ==
        "waits for 3 more workers with 20.0 GiB of memory: 3 required, 0 of 4 joined have that; "
        "the most that one has is 10.0 GiB");
  CHECK(cluster.status(sixth).message() ==
        "waits for 3 more workers with 2 GPUs: 3 required, 0 of 4 joined have that; the most that "
        "one has is 1 GPU");
  // What is reserved outlives the coordinator.
  cluster.restart_coordinator(1s);
  cluster.run_for(2s);
  CHECK(cluster.status(second).state() == pb::SUBMITTED);
  REQUIRE(cluster.stop(first).error().empty());
  CHECK(cluster.run_until_state(second, pb::RUNNING));
}

TEST_CASE("a job waits for memory of the servers, backups included", "[coordinator][queue]") {
  constexpr std::uint64_t kMib = 1UL << 20U;
  constexpr std::uint64_t kGib = 1024 * kMib;
  const bool is_replicated = GENERATE(false, true);
  FakeCluster cluster;
  cluster.options.replication_interval = is_replicated ? 4 : 0;
  cluster.restart_coordinator(1ms);
  // Three of four shards are the first one's, so that 12 of its 9 GiB are as many as 4 of 3.
  cluster.add_server("s0", 3, 9 * kGib);
  cluster.add_server("s1", 1, 100 * kGib);
  for (int i = 0; i < 4; ++i) cluster.add_worker("w" + std::to_string(i));
  cluster.run_for(1s);
  const std::uint64_t half = is_replicated ? 3 : 6;
  pb::Job definition = make_job(1);
  definition.mutable_resources()->set_server_memory(half * kGib + kMib);
  const std::uint64_t first = cluster.submit(definition).job();
  REQUIRE(cluster.run_until_state(first, pb::RUNNING));
  const std::uint64_t second = cluster.submit(definition).job();
  definition.mutable_resources()->set_server_memory(half * kGib - 2 * kMib);
  const std::uint64_t third = cluster.submit(definition).job();
  REQUIRE(cluster.run_until_state(third, pb::RUNNING));
  definition.mutable_resources()->set_server_memory(20 * kGib);
  const std::uint64_t fourth = cluster.submit(definition).job();
  cluster.run_for(1s);
  CHECK(cluster.status(second).message() ==
        (is_replicated ? "waits for 3.0 GiB of the servers' memory; there is room for tables of "
                         "1.0 MiB of 6.0 GiB, with their backups"
                       : "waits for 6.0 GiB of the servers' memory; there is room for tables of "
                         "1.0 MiB of 12.0 GiB"));
  CHECK_THAT(cluster.status(fourth).message(),
             Contains("requires 20.0 GiB of the servers' memory, which has room for tables of " +
                      std::string(is_replicated ? "6.0" : "12.0") + " GiB"));
  REQUIRE(cluster.stop(first).error().empty());
  CHECK(cluster.run_until_state(second, pb::RUNNING));
}

TEST_CASE("what a job requires is checked when it is submitted", "[coordinator][queue]") {
  Jobs cluster(1);
  pb::Job definition = make_job(1);
  definition.mutable_resources()->set_devices(65);
  CHECK(cluster.submit(definition).error() == "resources: devices is 65; at most 64 are possible");
  definition.mutable_resources()->set_devices(0);
  definition.mutable_resources()->set_memory(~0ULL);
  CHECK_THAT(cluster.submit(definition).error(),
             Contains("resources: 18446744073709551615 bytes are more than 1125899906842624"));
  definition.mutable_resources()->set_memory(1);
  definition.set_external_members(true);
  definition.clear_net_param();
  CHECK_THAT(cluster.submit(definition).error(), Contains("omit memory and devices"));
}

/// No worker works for two jobs.
void check_shares(Jobs& cluster, const Numbers& jobs) {
  Names seen;
  for (const std::uint64_t job : jobs) {
    if (cluster.status(job).state() != pb::RUNNING) continue;
    for (const std::string& worker : cluster.workers_of(job)) {
      CAPTURE(job, worker);
      CHECK(seen.insert(worker).second);
    }
  }
}

/// One random thing that happens to a cluster of six workers.
void disturb(Jobs& cluster, Numbers& jobs, std::mt19937_64& random) {
  const auto pick = [&random](std::size_t n) { return static_cast<std::uint32_t>(random() % n); };
  const std::string worker = "w" + std::to_string(pick(6));
  const std::uint64_t job = jobs.empty() ? 1 : jobs[pick(jobs.size())];
  switch (pick(8)) {
    case 0:
    case 1:
    case 2: {
      pb::Job definition = make_job(1 + pick(4), 50 + static_cast<std::int32_t>(pick(400)));
      definition.set_priority(static_cast<std::int32_t>(pick(3)));
      if (pick(2) == 0) definition.set_min_workers(1);
      if (pick(2) == 0) definition.set_expected_s(1 + pick(60));
      const pb::SubmitReply reply = cluster.submit(definition);
      if (reply.error().empty()) jobs.push_back(reply.job());
      break;
    }
    case 3:
      cluster.kill(worker);
      break;
    case 4:
      cluster.add_worker(worker);
      break;
    case 5:
      static_cast<void>(cluster.change(job, pick(2) == 0));
      break;
    case 6:
      static_cast<void>(cluster.stop(job, pick(2) == 0));
      break;
    default:
      cluster.restart_coordinator(std::chrono::seconds(pick(3)));
      break;
  }
}

TEST_CASE("a place whose worker is lost is filled before a job that waits starts",
          "[coordinator][queue]") {
  Jobs cluster(3);
  const std::uint64_t first = cluster.start(make_job(3));
  const std::uint64_t second = cluster.submit(make_job(1)).job();
  cluster.kill("w0");
  REQUIRE(cluster.run_until([&] { return cluster.workers_of(first).size() == 2; }));
  cluster.add_worker("w3");
  REQUIRE(cluster.run_until([&] { return cluster.workers_of(first).contains("w3"); }));
  CHECK(cluster.status(second).message() == "waits for job 1 to end");
  cluster.add_worker("w4");
  CHECK(cluster.run_until_state(second, pb::RUNNING));
}

TEST_CASE("jobs come and go while messages are lost, and no worker has two of them",
          "[coordinator][queue]") {
  for (std::uint64_t seed = 1; seed <= 20; ++seed) {
    CAPTURE(seed);
    FakeNetwork network;
    network.drop = 0.1;
    network.duplicate = 0.1;
    network.delay_max = 200ms;
    Jobs cluster(6, seed % 2 == 0, seed, network);
    std::mt19937_64 random(seed);
    Numbers jobs;
    for (int i = 0; i < 30; ++i) {
      disturb(cluster, jobs, random);
      cluster.run_for(std::chrono::seconds(random() % 6));
      check_shares(cluster, jobs);
    }
    for (int i = 0; i < 6; ++i) cluster.add_worker("w" + std::to_string(i));
    // Those that were pre-empted are continued by others.
    for (std::size_t i = 0; i < jobs.size(); ++i) {
      static_cast<void>(cluster.change(jobs[i], false));
      const bool has_ended =
          cluster.run_until([&] { return cluster.status(jobs[i]).state() >= pb::DONE; }, 30min);
      CAPTURE(jobs[i], cluster.status(jobs[i]).ShortDebugString());
      REQUIRE(has_ended);
      check_shares(cluster, jobs);
      const std::uint64_t rest = cluster.status(jobs[i]).restarted_as();
      if (rest != 0) jobs.push_back(rest);
    }
    CHECK(cluster.broken() == std::vector<std::string>());
  }
}

}  // namespace
}  // namespace taut
