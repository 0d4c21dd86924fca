#include "tests/support/catch.hpp"
#include "tests/unit/coordinator/fake_cluster.hpp"

using namespace std::chrono_literals;

namespace taut {
namespace {

constexpr int kWorkers = 4;

/// One random thing that happens to a cluster.
void disturb(FakeCluster& cluster, std::uint64_t job, std::mt19937_64& random, bool restarts) {
  const auto pick = [&random](int n) {
    return std::uniform_int_distribution<int>(0, n - 1)(random);
  };
  // One worker stays, so that there is always a job to continue with.
  const std::string worker = "w" + std::to_string(1 + pick(kWorkers - 1));
  const std::string server = "s" + std::to_string(pick(2));
  switch (pick(restarts ? 7 : 6)) {
    case 0:
      cluster.kill(worker);
      break;
    case 1:
      cluster.add_worker(worker);
      break;
    case 2:
      if (cluster.at(worker).session) cluster.at(worker).cut_off = !cluster.at(worker).cut_off;
      break;
    case 3:
      static_cast<void>(
          cluster.set_slack(job, pick(4) == 0 ? Slack::unbounded().clocks() : pick(4)));
      break;
    case 4:
      cluster.at(server).server.set_busy(true);
      break;
    case 5:
      cluster.at(server).server.set_busy(false);
      break;
    default:
      cluster.restart_coordinator(std::chrono::seconds(pick(5)));
      break;
  }
}

void torment(std::uint64_t seed, bool restarts) {
  CAPTURE(seed);
  FakeNetwork network;
  network.drop = 0.2;
  network.duplicate = 0.2;
  network.delay_max = 400ms;
  FakeCluster cluster(seed, network);
  std::mt19937_64 random(seed);
  cluster.add_server("s0");
  cluster.add_server("s1");
  for (int i = 0; i < kWorkers; ++i) cluster.add_worker("w" + std::to_string(i));
  cluster.run_for(10s);
  const std::uint64_t job = cluster.submit(make_job(3)).job();
  for (int i = 0; i < 25 && cluster.status(job).state() == pb::RUNNING; ++i) {
    disturb(cluster, job, random, restarts);
    cluster.run_for(std::chrono::seconds(std::uniform_int_distribution<int>(0, 12)(random)));
  }
  // Once the faults end, the job continues.
  for (const char* name : {"s0", "s1"}) cluster.at(name).server.set_busy(false);
  cluster.run_for(60s);
  CHECK(cluster.broken().empty());
  const pb::JobStatus status = cluster.status(job);
  REQUIRE(status.state() == pb::RUNNING);
  std::int64_t before = 0;
  for (const pb::WorkerStatus& worker : status.workers()) {
    before = std::max(before, worker.progress().clock());
  }
  CHECK(cluster.run_until([&] {
    const pb::JobStatus seen = cluster.status(job);
    for (const pb::WorkerStatus& worker : seen.workers()) {
      if (worker.state() == pb::PROCESS_RUNNING && worker.progress().clock() <= before)
        return false;
    }
    return true;
  }));
  const pb::ServerJob& one = *cluster.at("s0").server.state_of(job);
  const pb::ServerJob& other = *cluster.at("s1").server.state_of(job);
  CHECK(one.revision() == other.revision());
  CHECK(one.epoch() == other.epoch());
}

}  // namespace

TEST_CASE("epochs stay consistent while messages are lost, repeated and reordered, and workers die",
          "[coordinator][epoch]") {
  for (std::uint64_t seed = 1; seed <= 30; ++seed) torment(seed, false);
}

TEST_CASE("epochs stay consistent when the coordinator restarts amid all of it",
          "[coordinator][epoch]") {
  for (std::uint64_t seed = 101; seed <= 130; ++seed) torment(seed, true);
}

TEST_CASE("a job completes on a bad network", "[coordinator]") {
  FakeNetwork network;
  network.drop = 0.4;
  network.duplicate = 0.4;
  network.delay_max = 800ms;
  for (std::uint64_t seed = 1; seed <= 10; ++seed) {
    CAPTURE(seed);
    FakeCluster cluster(seed, network);
    cluster.add_server("s0");
    cluster.add_server("s1");
    cluster.add_worker("w0");
    cluster.add_worker("w1");
    cluster.run_for(10s);
    const std::uint64_t job = cluster.submit(make_job(2, 200)).job();
    REQUIRE(cluster.run_until_state(job, pb::DONE));
    CHECK(cluster.status(job).parameters_sha256() == "digest");
    CHECK(cluster.run_until([&] {
      return cluster.at("s0").server.has_finished(job) && cluster.at("s1").server.has_finished(job);
    }));
  }
}

}  // namespace taut
