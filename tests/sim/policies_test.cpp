// What policies add to the contract.
#include <algorithm>

#include "tests/sim/checked_run.hpp"

using namespace taut;
using taut::sim::Outcome;
using taut::sim::Plan;
using taut::test::rough;
using taut::test::run_and_check;
using Kind = taut::sim::Plan::Event::Kind;

TEST_CASE("with a backup worker a straggler hardly delays the other workers", "[sim][policy]") {
  Plan alone;
  alone.job = {.clocks = 60, .workers = 3, .slack = Slack(0)};
  alone.slow_worker = 1;
  alone.slowness = 8;
  Plan backed = alone;
  backed.job.policies.set_backup_workers(1);
  for (std::uint64_t seed = 1; seed <= 5; ++seed) {
    alone.seed = backed.seed = seed;
    CHECK(3 * run_and_check(backed).trained < run_and_check(alone).trained);
  }
}

TEST_CASE("a slack that moves lets the fastest worker further ahead, and never beyond its range",
          "[sim][policy]") {
  Plan plan;
  plan.job = {.clocks = 80, .workers = 3, .slack = Slack(1)};
  plan.slow_worker = 2;
  plan.slowness = 5;
  const auto widest = [&](std::uint32_t max_slack) {
    if (max_slack > 0) plan.job.policies.mutable_dynamic_slack()->set_most(max_slack);
    std::int64_t widest = 0;
    for (plan.seed = 1; plan.seed <= 5; ++plan.seed) {
      widest = std::max(widest, run_and_check(plan).widest);
    }
    return widest;
  };
  CHECK(widest(0) == 1);
  const std::int64_t moved = widest(6);
  CHECK(moved > 1);
  CHECK(moved <= 6);
}

TEST_CASE("periodic averaging has the same bits under all network faults", "[sim][policy]") {
  Plan calm;
  calm.job = {.clocks = 45, .workers = 3, .slack = Slack(0), .mean = true};
  calm.job.policies.mutable_periodic_averaging()->set_interval(4);
  const Outcome without = run_and_check(calm);
  // Eleven meetings of four clocks, and one of the rest.
  CHECK(without.reads == 3UL * 12 * calm.job.tables);
  Plan harmed = calm;
  harmed.faults = rough();
  for (std::uint64_t seed = 1; seed <= 10; ++seed) {
    harmed.seed = seed;
    CHECK(run_and_check(harmed).values_hash == without.values_hash);
  }
}

TEST_CASE("workers meet at an outer rule in the same bits under all network faults",
          "[sim][policy]") {
  Plan calm;
  calm.job = {.tables = 3, .clocks = 45, .workers = 3, .slack = Slack(0), .mean = true};
  pb::PeriodicAveraging& averaging = *calm.job.policies.mutable_periodic_averaging();
  averaging.set_interval(6);
  averaging.set_fragments(3);
  averaging.mutable_outer();
  const Outcome without = run_and_check(calm);
  // Meetings of the three fragments: 8, 9 and 8, the last of each at the end, after which nothing
  // is read; the initial read makes up for it.
  CHECK(without.reads == 3UL * (8 + 9 + 8));
  Plan harmed = calm;
  harmed.faults = rough();
  for (std::uint64_t seed = 1; seed <= 10; ++seed) {
    harmed.seed = seed;
    CHECK(run_and_check(harmed).values_hash == without.values_hash);
  }
}

TEST_CASE("a worker that is late by fewer meetings than the slack holds no other up",
          "[sim][policy]") {
  Plan plan;
  plan.job = {.clocks = 80, .workers = 3, .slack = Slack(1), .mean = true};
  plan.job.policies.mutable_periodic_averaging()->set_interval(8);
  plan.job.policies.mutable_periodic_averaging()->mutable_outer();
  plan.slow_worker = 2;
  plan.slowness = 5;
  const auto widest = [&](Slack slack) {
    plan.job.slack = slack;
    std::int64_t widest = 0;
    for (plan.seed = 1; plan.seed <= 5; ++plan.seed) {
      widest = std::max(widest, run_and_check(plan).widest);
    }
    return widest;
  };
  // In clocks: of one meeting, and of three.
  CHECK(widest(Slack(1)) == 8);
  CHECK(widest(Slack(3)) == 24);
}

TEST_CASE("elastic averaging adds every worker's pull up once, in every mode", "[sim][policy]") {
  for (std::uint64_t seed = 1; seed <= 10; ++seed) {
    for (const Slack slack : {Slack(0), Slack(3), Slack::unbounded()}) {
      Plan plan;
      plan.seed = seed;
      plan.job = {.clocks = 50, .slack = slack};
      plan.job.policies.mutable_elastic_averaging()->set_interval(6);
      plan.faults = rough();
      plan.events = {{Duration(60'000), Kind::kKill, 1}, {Duration(120'000), Kind::kStart, 1}};
      plan.heartbeat_limit = Duration(400'000);
      run_and_check(plan);
    }
  }
}
