#include "lab/training/outages.hpp"

#include <set>
#include <string>

#include "tests/support/catch.hpp"
#include "tests/unit/lab/tiny_training.hpp"

namespace taut::lab {

TEST_CASE("what happens six times an hour is waited for ten minutes on average", "[lab]") {
  constexpr int kWaits = 20'000;
  sim::Random random(7);
  double sum = 0;
  int long_ones = 0;
  for (int i = 0; i < kWaits; ++i) {
    const double wait = wait_s(random, 6);
    REQUIRE(wait >= 0);
    sum += wait;
    if (wait > 1200) ++long_ones;
  }
  CHECK(sum / kWaits == Approx(600).epsilon(0.03));
  // In an exponential distribution, e^-2 are longer than twice the mean.
  CHECK(static_cast<double>(long_ones) / kWaits == Approx(0.1353).epsilon(0.06));
}

TEST_CASE("what happens once in more years than time can count never happens", "[lab]") {
  CHECK(from_seconds(1e300) == from_seconds(kMaxDurationSeconds));
  CHECK(from_microseconds(1e300) == from_seconds(kMaxDurationSeconds));
  TrainingOptions options = tiny_training("solver_param { base_lr: 0.1 max_iter: 5 }",
                                          "compute { clock_ms: 1 } "
                                          "outage { host: \"w\" per_hour: 1e-18 }");
  const TrainingOutcome outcome = run_to_end(options);
  CHECK(outcome.job.state() == pb::DONE);
  CHECK(outcome.losses.empty());
}

TEST_CASE("two servers that are drained at the same time have both left before one would be missed",
          "[lab]") {
  TrainingOptions options = tiny_training(
      "solver_param { base_lr: 0.1 max_iter: 200 }",
      "compute { clock_ms: 30 } control { replication_interval: 1 heartbeat_limit_s: 15 } "
      "host { name: \"t\" count: 3 workers: 0 servers: 1 link: \"card\" } "
      "outage { host: \"t1\" at_s: 0.5 notice_s: 60 } "
      "outage { host: \"t2\" at_s: 0.5 notice_s: 60 }");
  options.servers = 4;
  pb::JobStatus newest;  // that has shards, as it runs
  options.show = [&newest](const pb::JobStatus& job) {
    if (job.shards_size() > 0) newest = job;
    return true;
  };
  const TrainingOutcome outcome = run_to_end(options);
  CHECK(outcome.job.state() == pb::DONE);
  CHECK(outcome.virtual_s < 12);
  REQUIRE(newest.shards_size() == 4);
  std::set<std::string> servers;
  for (const pb::ShardStatus& shard : newest.shards()) {
    servers.insert(shard.server());
    CHECK(shard.is_protected());
    for (const pb::BackupStatus& backup : shard.backups()) servers.insert(backup.server());
  }
  CHECK(servers.size() == 2);
}

}  // namespace taut::lab
