// Jobs side by side on one cluster, each with its own workers.
#include <random>

#include "tests/support/catch.hpp"
#include "tests/unit/coordinator/queue/jobs_cluster.hpp"

using namespace std::chrono_literals;
using Catch::Matchers::Contains;

namespace taut {
namespace {

using test::Jobs;
using test::Names;
using test::Numbers;
using test::with_priority;

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
