#include "server/coordinator/epoch_change.hpp"

#include <utility>

#include "server/coordinator/store/job_record.hpp"
#include "tests/support/catch.hpp"
#include "tests/unit/coordinator/fake_cluster.hpp"

using namespace std::chrono_literals;
using Catch::Matchers::Contains;
using Catch::Matchers::StartsWith;

namespace taut {
namespace {

/// A cluster with a job that has started.
struct Running {
  Running(int servers, int workers, std::uint32_t required, std::uint32_t slack = 1,
          std::int32_t max_iter = 1000000) {
    for (int i = 0; i < servers; ++i) cluster.add_server("s" + std::to_string(i));
    for (int i = 0; i < workers; ++i) cluster.add_worker("w" + std::to_string(i));
    cluster.run_for(1s);
    job = cluster.submit(make_job(required, max_iter, slack)).job();
    REQUIRE(cluster.run_until([&] { return clock("w0") > 10; }));
  }
  std::int64_t clock(const std::string& name) { return cluster.at(name).worker.clock(); }
  const pb::ServerJob& state(const std::string& server = "s0") {
    return *cluster.at(server).server.state_of(job);
  }
  bool continues(const std::string& name) {
    const std::int64_t before = clock(name);
    return cluster.run_until([&] { return clock(name) > before + 20; });
  }

  /// One of three workers that report how long they took to start is lost; another one joins.
  /// Returns a clock from before that, and the one at which it joins.
  std::pair<std::int64_t, std::int64_t> replace_one(double start_s) {
    for (const char* name : {"w0", "w2"}) cluster.at(name).worker.start_s = start_s;
    cluster.kill("w1");
    REQUIRE(cluster.run_until([&] { return state().epoch() == 1; }));
    REQUIRE(continues("w0"));
    const std::int64_t before = clock("w0");
    cluster.add_worker("w3");
    REQUIRE(cluster.run_until([&] { return cluster.at("w3").worker.job().has_value(); }));
    return {before, cluster.at("w3").worker.job()->start_clock()};
  }

  FakeCluster cluster;
  std::uint64_t job = 0;
};

constexpr std::int64_t kNever = Clock::never().value();

}  // namespace

TEST_CASE(
    "a lost worker leaves from the lowest clock that a server still expects of it, and the others "
    "continue",
    "[coordinator][epoch]") {
  Running running(2, 3, 0);
  FakeCluster& cluster = running.cluster;
  cluster.kill("w1");
  // Within the bound the others stop.
  cluster.run_for(10s);
  CHECK(running.clock("w0") <= running.clock("w1") + 2);
  REQUIRE(cluster.run_until([&] { return running.state().epoch() == 1; }));
  CHECK(running.continues("w0"));
  const pb::Member& left = running.state().members(1);
  CHECK(left.fenced());
  CHECK(left.leave_clock() != kNever);
  CHECK(left.leave_clock() <= running.clock("w1") + 1);
  CHECK(running.state("s1").members(1).leave_clock() == left.leave_clock());
  const pb::JobStatus status = cluster.status(running.job);
  CHECK(status.workers(1).state() == pb::PROCESS_LOST);
  CHECK(status.epoch() == 1);
  CHECK_THAT(status.message(),
             StartsWith("worker \"w1\" was silent for 15.") && Contains("2 of 3 workers continue"));
  CHECK(cluster.broken().empty());
}

TEST_CASE("the cut of a lost worker waits for every server", "[coordinator][epoch]") {
  Running running(2, 2, 0);
  running.cluster.at("s1").server.set_busy(true);
  running.cluster.kill("w1");
  running.cluster.run_for(25s);
  CHECK(running.state("s0").members(1).fenced());
  CHECK(running.state("s0").members(1).leave_clock() == kNever);
  running.cluster.at("s1").server.set_busy(false);
  CHECK(running.cluster.run_until([&] { return running.state("s1").epoch() == 1; }));
  CHECK(running.cluster.broken().empty());
}

TEST_CASE("two workers that are lost at once leave in one change", "[coordinator][epoch]") {
  Running running(2, 3, 0);
  running.cluster.kill("w0");
  running.cluster.kill("w2");
  REQUIRE(running.cluster.run_until([&] { return running.state().epoch() == 1; }));
  CHECK(running.state().members(0).leave_clock() != kNever);
  CHECK(running.state().members(2).leave_clock() != kNever);
  CHECK(running.continues("w1"));
  CHECK(running.cluster.broken().empty());
}

TEST_CASE("a loss during another cut follows in a separate change", "[coordinator][epoch]") {
  Running running(2, 3, 0);
  FakeCluster& cluster = running.cluster;
  cluster.kill("w1");
  cluster.run_for(10s);
  cluster.kill("w2");
  cluster.at("s1").server.set_busy(true);
  cluster.run_for(20s);
  CHECK(running.state("s0").epoch() == 0);
  cluster.at("s1").server.set_busy(false);
  REQUIRE(cluster.run_until([&] { return running.state("s1").epoch() == 2; }));
  CHECK(running.continues("w0"));
  CHECK(cluster.broken().empty());
}

TEST_CASE("the next lowest worker evaluates when the one that did is lost",
          "[coordinator][epoch]") {
  Running running(1, 3, 0, 1, 3000);
  CHECK(running.cluster.at("w0").worker.job()->evaluates());
  CHECK_FALSE(running.cluster.at("w1").worker.job()->evaluates());
  running.cluster.kill("w0");
  REQUIRE(running.cluster.run_until(
      [&] { return running.cluster.at("w1").worker.job()->evaluates(); }));
  CHECK_FALSE(running.cluster.at("w2").worker.job()->evaluates());
  REQUIRE(running.cluster.run_until_state(running.job, pb::DONE));
  CHECK(running.cluster.status(running.job).parameters_sha256() == "digest");
  CHECK(running.cluster.status(running.job).message() == "1 of 3 workers was lost");
}

TEST_CASE("a worker that joins takes the free slot from a clock above every push",
          "[coordinator][epoch]") {
  Running running(2, 3, 3);
  FakeCluster& cluster = running.cluster;
  cluster.kill("w1");
  REQUIRE(cluster.run_until([&] { return running.state().epoch() == 1; }));
  cluster.add_worker("w3");
  REQUIRE(cluster.run_until([&] { return running.clock("w3") > 0; }));
  const pb::WorkerJob joined = *cluster.at("w3").worker.job();
  CHECK(joined.worker() == 3);
  CHECK(joined.slot() == 1);
  CHECK(joined.slots() == 3);
  CHECK(joined.start_clock() > 10);
  CHECK(running.state().epoch() == 2);
  CHECK(running.state().hold_from() == kNever);
  CHECK(running.state().members().rbegin()->worker() == 3);
  CHECK(running.state().members().rbegin()->join_clock() == joined.start_clock());
  CHECK(running.continues("w3"));
  CHECK(running.continues("w0"));
  // The status no longer mentions the loss.
  CHECK_THAT(cluster.status(running.job).message(),
             StartsWith("worker \"w3\" has joined from clock ") && Contains("; 3 of 3 workers"));
  CHECK(cluster.broken().empty());
}

TEST_CASE("a worker joins as many clocks ahead as the others train while one starts",
          "[coordinator][epoch]") {
  Running running(2, 3, 3);
  const auto [before, join] = running.replace_one(0.5);
  // A clock takes 0.01 s. Some pass before the change, which has its own lead.
  CHECK(join >= before + 50);
  CHECK(join < running.clock("w0") + 60);
  CHECK(running.continues("w3"));
  CHECK(running.cluster.broken().empty());
}

TEST_CASE("a worker that takes long to start joins before a quarter of what is left is trained",
          "[coordinator][epoch]") {
  constexpr std::int64_t kClocks = 1000;
  Running running(1, 3, 3, 1, kClocks);
  const auto [before, join] = running.replace_one(4);
  const std::int64_t now = running.clock("w0");
  CHECK(join > before + (kClocks - now) / 4 - 10);
  CHECK(join < now + (kClocks - before) / 4 + 10);
}

TEST_CASE("servers forget members that left, and the record keeps the newest by name",
          "[coordinator][epoch]") {
  Running running(2, 2, 2);
  FakeCluster& cluster = running.cluster;
  constexpr int kLives = 50;
  for (int life = 1; life <= kLives; ++life) {
    cluster.kill("w1");
    cluster.run_for(1s);
    cluster.add_worker("w1");
    REQUIRE(cluster.run_until([&] { return cluster.at("w1").worker.job().has_value(); }));
    // Numbers are never given twice: a late message of an earlier life is never taken for another
    // worker's.
    CHECK(cluster.at("w1").worker.job()->worker() == static_cast<std::uint32_t>(life) + 1);
    REQUIRE(running.continues("w1"));
    // The member that left last may still hold V back.
    REQUIRE(running.state().members_size() <= 3);
    REQUIRE(running.state("s1").members_size() <= 3);
  }
  CHECK(cluster.broken().empty());
  const pb::JobStatus status = cluster.status(running.job);
  CHECK(status.workers_size() <= 2 + 1 + JobRecord::kMaxPast);
  CHECK(status.workers_size() + static_cast<int>(status.former_workers()) == 2 + kLives);
  CHECK(status.workers(0).name() == "w0");
  CHECK(status.workers(0).state() == pb::PROCESS_RUNNING);
}

TEST_CASE("a coordinator that restarts continues to forget members", "[coordinator][epoch]") {
  Running running(1, 2, 2);
  FakeCluster& cluster = running.cluster;
  const auto another_life = [&] {
    cluster.kill("w1");
    cluster.run_for(1s);
    cluster.add_worker("w1");
    REQUIRE(cluster.run_until([&] { return cluster.at("w1").worker.job().has_value(); }));
    REQUIRE(running.continues("w1"));
  };
  for (int life = 0; life < 3; ++life) another_life();
  cluster.restart_coordinator(1s);
  REQUIRE(running.continues("w0"));
  for (int life = 0; life < 3; ++life) another_life();
  CHECK(cluster.at("w1").worker.job()->worker() == 7);
  CHECK(running.state().members_size() <= 3);
  CHECK(cluster.broken().empty());
}

TEST_CASE("a worker that returns after its loss is a new member", "[coordinator][epoch]") {
  Running running(1, 2, 2);
  FakeCluster& cluster = running.cluster;
  const std::uint64_t first_life = cluster.at("w1").worker.job()->incarnation();

  SECTION("as a new process") {
    cluster.kill("w1");
    cluster.run_for(1s);
    cluster.add_worker("w1");
  }
  SECTION("as the same process, which learns that it was lost") {
    cluster.at("w1").cut_off = true;
    REQUIRE(cluster.run_until([&] { return running.state().epoch() == 1; }));
    cluster.at("w1").cut_off = false;
    REQUIRE(cluster.run_until([&] { return !cluster.at("w1").worker.job(); }));
  }
  REQUIRE(cluster.run_until([&] { return cluster.at("w1").worker.job().has_value(); }));
  CHECK(cluster.at("w1").worker.job()->worker() == 2);
  CHECK(cluster.at("w1").worker.job()->incarnation() > first_life);
  CHECK(running.continues("w1"));
  const pb::JobStatus status = cluster.status(running.job);
  CHECK(status.workers(1).state() == pb::PROCESS_LOST);
  CHECK(status.workers(2).state() == pb::PROCESS_RUNNING);
  CHECK(cluster.broken().empty());
}

TEST_CASE("a job starts with min_workers, and those that come later join in one change",
          "[coordinator][epoch]") {
  FakeCluster cluster;
  cluster.add_server("s0");
  cluster.add_worker("w0");
  cluster.run_for(1s);
  pb::Job definition = make_job(4);
  definition.set_min_workers(2);
  const std::uint64_t job = cluster.submit(definition).job();
  CHECK(cluster.status(job).message() == "waits for 1 more worker: 2 required, 1 joined");
  cluster.add_worker("w1");
  REQUIRE(cluster.run_until([&] { return cluster.at("w1").worker.clock() > 10; }));
  CHECK(cluster.status(job).message() == "2 of 4 workers; others join while it runs");
  const auto state = [&]() -> const pb::ServerJob& {
    return *cluster.at("s0").server.state_of(job);
  };
  // The shard is busy until all three have joined.
  cluster.at("s0").server.set_busy(true);
  for (const char* name : {"w2", "w3", "w4"}) cluster.add_worker(name);
  cluster.run_for(2s);
  cluster.at("s0").server.set_busy(false);
  REQUIRE(cluster.run_until([&] { return state().members_size() == 4; }));
  CHECK(state().epoch() == 1);
  CHECK(state().members(2).slot() == 2);
  CHECK(state().members(3).slot() == 3);
  CHECK(state().members(2).join_clock() == state().members(3).join_clock());
  const std::int64_t before = cluster.at("w3").worker.clock();
  CHECK(cluster.run_until([&] { return cluster.at("w3").worker.clock() > before + 20; }));
  CHECK_FALSE(cluster.at("w4").worker.job());
  CHECK(cluster.broken().empty());
}

TEST_CASE("the slot of a worker that left is given away once", "[coordinator][epoch]") {
  FakeCluster cluster;
  for (const char* name : {"s0", "s1"}) cluster.add_server(name);
  for (const char* name : {"w0", "w1"}) cluster.add_worker(name);
  cluster.run_for(1s);
  pb::Job definition = make_job(4);
  definition.set_min_workers(2);
  const std::uint64_t job = cluster.submit(definition).job();
  REQUIRE(cluster.run_until([&] { return cluster.at("w0").worker.clock() > 10; }));
  const auto state = [&]() -> const pb::ServerJob& {
    return *cluster.at("s1").server.state_of(job);
  };
  // While w2 joins, w0 leaves at the end of its clock: w2 gets its slot.
  const auto set_busy = [&](bool busy) {
    for (const char* name : {"s0", "s1"}) cluster.at(name).server.set_busy(busy);
  };
  set_busy(true);
  cluster.add_worker("w2");
  cluster.run_for(1s);
  cluster.at("w0").worker.leaves = FakeWorker::Leaves::kForNow;
  REQUIRE(cluster.run_until(
      [&] { return cluster.status(job).workers(0).state() == pb::PROCESS_LOST; }));
  set_busy(false);
  REQUIRE(cluster.run_until([&] { return state().members_size() == 3; }));
  CHECK(state().members(2).slot() == 0);
  // Its leave is made only now, when w3 waits for a place.
  set_busy(true);
  cluster.add_worker("w3");
  cluster.run_for(2s);
  set_busy(false);
  REQUIRE(cluster.run_until([&] { return state().members_size() == 4; }));
  CHECK(state().members(0).leave_clock() != kNever);
  CHECK(state().members(3).slot() == 2);
  CHECK(cluster.broken().empty());
}

TEST_CASE("a slot that has had a later owner is not given from an earlier clock",
          "[coordinator][epoch]") {
  pb::StoredJob stored;
  stored.set_job(7);
  stored.set_state(pb::RUNNING);
  stored.set_slots(2);
  stored.set_revision(1);
  stored.mutable_definition()->mutable_solver_param()->set_max_iter(1000);
  stored.mutable_preparing()->set_kind(pb::EpochChange::LEAVE);
  stored.mutable_preparing()->add_leaving(0);
  // Worker 0 has left at clock 7; worker 1 joined at 9 in its slot, and was lost.
  for (std::uint32_t worker = 0; worker < 2; ++worker) {
    pb::StoredMember& member = *stored.add_members();
    member.set_lost(true);
    member.mutable_member()->set_worker(worker);
    member.mutable_member()->set_incarnation(worker + 1);
    member.mutable_member()->set_fenced(worker == 0);
    member.mutable_member()->set_join_clock(worker == 0 ? 0 : 9);
    member.mutable_member()->set_leave_clock(kNever);
  }
  stored.mutable_members(0)->mutable_progress()->set_left(true);
  stored.mutable_members(0)->mutable_progress()->set_clock(7);
  stored.add_servers()->set_name("s0");
  JobRecord job(stored, TimePoint());
  job.servers.resize(1);
  pb::FencedProgress& fenced = *job.servers[0].reply.add_fenced();
  fenced.set_worker(0);
  fenced.set_min_done(7);
  job.servers[0].delivery.acknowledge(job.stored().revision());
  Participant waiting;
  waiting.name = "w2";
  waiting.incarnation = Incarnation(3);
  waiting.peer = PeerId(3);
  Notes notes;
  advance_epoch(
      job, [&] { return std::vector<const Participant*>{&waiting}; }, notes);
  CHECK(job.stored().members(0).member().leave_clock() == 7);
  CHECK(job.stored().members_size() == 2);
}

TEST_CASE("a member whose last updates were lost with a server leaves where another one takes over",
          "[coordinator][epoch]") {
  // Seed 391605 of the simulator. Worker 0 has left at clock 7, and the only server that had its
  // update of clock 6 was lost: from 6 on nothing is left of it.
  pb::StoredJob stored;
  stored.set_job(7);
  stored.set_state(pb::RUNNING);
  stored.set_slots(1);
  stored.set_revision(1);
  stored.mutable_definition()->mutable_solver_param()->set_max_iter(1000);
  stored.mutable_preparing()->set_kind(pb::EpochChange::JOIN);
  stored.set_hold_from(6);
  pb::StoredMember& lost = *stored.add_members();
  lost.set_lost(true);
  lost.mutable_member()->set_incarnation(1);
  lost.mutable_member()->set_fenced(true);
  lost.mutable_member()->set_leave_clock(7);
  lost.mutable_progress()->set_clock(5);
  stored.add_servers()->set_name("s0");
  JobRecord job(stored, TimePoint());
  job.servers.resize(1);
  job.servers[0].reply.set_max_done(6);
  job.servers[0].delivery.acknowledge(job.stored().revision());
  Participant waiting;
  waiting.name = "w1";
  waiting.incarnation = Incarnation(3);
  waiting.peer = PeerId(3);
  Notes notes;
  advance_epoch(
      job, [&] { return std::vector<const Participant*>{&waiting}; }, notes);
  REQUIRE(job.stored().members_size() == 2);
  CHECK(job.stored().members(1).member().slot() == 0);
  CHECK(job.stored().members(1).member().join_clock() == 6);
  CHECK(job.stored().members(0).member().leave_clock() == 6);
}

TEST_CASE("more min_workers than workers are refused", "[coordinator][epoch]") {
  FakeCluster cluster;
  pb::Job definition = make_job(2);
  definition.set_min_workers(3);
  CHECK_THAT(cluster.submit(definition).error(), StartsWith("min_workers: 3 is above workers: 2"));
}

TEST_CASE("a worker without a free slot stays idle", "[coordinator][epoch]") {
  Running running(1, 2, 0);
  running.cluster.add_worker("w2");
  running.cluster.run_for(10s);
  CHECK_FALSE(running.cluster.at("w2").worker.job());
  CHECK(running.state().epoch() == 0);
}

TEST_CASE("no worker joins a job that is about to end", "[coordinator][epoch]") {
  Running running(1, 2, 2, 5, 20);
  running.cluster.at("w0").worker.stuck = true;
  running.cluster.kill("w1");
  REQUIRE(running.cluster.run_until([&] { return running.state().epoch() == 1; }));
  // Only clocks remain in which a newcomer has no part.
  running.cluster.at("w0").worker.stuck = false;
  REQUIRE(running.cluster.run_until_state(running.job, pb::DONE));
  running.cluster.add_worker("w2");
  running.cluster.run_for(5s);
  CHECK_FALSE(running.cluster.at("w2").worker.job());
}

TEST_CASE("a joining worker that dies meanwhile blocks no other", "[coordinator][epoch]") {
  Running running(2, 2, 2);
  FakeCluster& cluster = running.cluster;
  cluster.kill("w1");
  REQUIRE(cluster.run_until([&] { return running.state().epoch() == 1; }));
  cluster.at("s1").server.set_busy(true);
  cluster.add_worker("w2");
  REQUIRE(cluster.run_until([&] { return running.state("s0").hold_from() != kNever; }));
  cluster.kill("w2");
  cluster.run_for(20s);
  cluster.at("s1").server.set_busy(false);
  CHECK(running.continues("w0"));
  CHECK(running.state().members_size() == 2);
  CHECK(running.state().epoch() == 1);
}

TEST_CASE("a slack of the same mode changes at once", "[coordinator][epoch]") {
  Running running(2, 2, 0);
  CHECK(running.cluster.set_slack(running.job, 4).message() == "job 1: slack 1 -> 4");
  REQUIRE(running.cluster.run_until([&] { return running.state("s1").slack() == 4; }));
  CHECK(running.state().epoch() == 0);
  CHECK(running.state().modes_size() == 1);
  CHECK(running.cluster.set_slack(running.job, Slack::unbounded().clocks()).message() ==
        "job 1: slack 4 -> async");
  REQUIRE(running.cluster.run_until(
      [&] { return running.cluster.status(running.job).mode() == "ASYNC"; }));
  CHECK_THAT(running.cluster.set_slack(running.job, -1).error(), StartsWith("slack -1"));
}

TEST_CASE("a change between BSP and SSP happens at one clock ahead of every worker",
          "[coordinator][epoch]") {
  Running running(2, 2, 0);
  FakeCluster& cluster = running.cluster;
  CHECK_THAT(cluster.set_slack(running.job, 0).message(), Contains("ahead of every worker"));
  REQUIRE(cluster.run_until([&] {
    return running.state("s0").modes_size() == 2 && running.state("s1").modes_size() == 2;
  }));
  CHECK(running.state("s0").modes(1).mode() == pb::ModeChange::AGGREGATE);
  CHECK(running.state("s0").modes(1).first_clock() > 10);
  CHECK(running.state("s1").modes(1).first_clock() == running.state("s0").modes(1).first_clock());
  CHECK(running.state("s0").slack() == 0);
  CHECK(running.state("s0").hold_from() == kNever);
  CHECK(running.state("s0").epoch() == 1);
  CHECK(cluster.status(running.job).mode() == "BSP");
  CHECK(running.continues("w0"));
  CHECK(cluster.set_slack(running.job, 2).error().empty());
  REQUIRE(cluster.run_until([&] { return running.state().modes_size() == 3; }));
  CHECK(running.state().slack() == 2);
  CHECK(running.continues("w1"));
  CHECK(cluster.broken().empty());
}

TEST_CASE("a change of mode waits for a busy shard, and moves above the clocks it accepted",
          "[coordinator][epoch]") {
  Running running(2, 2, 0, 1000);
  FakeCluster& cluster = running.cluster;
  // No worker waits, so that one worker runs ahead at the shard that has not heard yet.
  cluster.at("s0").server.set_busy(true);
  cluster.at("s1").server.set_busy(true);
  CHECK(cluster.set_slack(running.job, 0).error().empty());
  cluster.run_for(5s);
  CHECK(running.state("s0").modes_size() == 1);
  cluster.at("s0").server.set_busy(false);
  const std::int64_t first_try = running.state("s0").hold_from();
  REQUIRE(first_try != kNever);
  CHECK(running.clock("w0") > first_try);
  cluster.run_for(5s);
  CHECK(running.state("s0").modes_size() == 1);
  cluster.at("s1").server.set_busy(false);
  REQUIRE(cluster.run_until([&] { return running.state("s1").modes_size() == 2; }));
  CHECK(running.state("s1").modes(1).first_clock() > first_try);
  CHECK(running.continues("w0"));
  CHECK(cluster.broken().empty());
}

TEST_CASE("a loss during a change of mode is dealt with after it", "[coordinator][epoch]") {
  Running running(2, 3, 0);
  FakeCluster& cluster = running.cluster;
  cluster.at("s1").server.set_busy(true);
  CHECK(cluster.set_slack(running.job, 0).error().empty());
  cluster.kill("w2");
  cluster.run_for(20s);
  CHECK_FALSE(running.state("s0").members(2).fenced());
  cluster.at("s1").server.set_busy(false);
  REQUIRE(cluster.run_until([&] { return running.state("s0").epoch() == 2; }));
  CHECK(running.state("s0").modes_size() == 2);
  CHECK(running.continues("w0"));
  CHECK(cluster.broken().empty());
}

}  // namespace taut
