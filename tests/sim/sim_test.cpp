#include <array>
#include <iostream>

#include "lab/simulated_run.hpp"
#include "tests/support/catch.hpp"

using namespace taut;
using taut::sim::LinkFaults;
using taut::sim::Outcome;
using taut::sim::Plan;
using Kind = taut::sim::Plan::Event::Kind;

namespace {

LinkFaults rough() {
  LinkFaults faults;
  faults.drop = 0.05;
  faults.duplicate = 0.05;
  faults.reorder = true;
  faults.delay_min = Duration(50);
  faults.delay_max = Duration(3000);
  return faults;
}

/// Servers whose loss takes a while to be noticed, next to clocks of 20 ms.
Plan replicated(std::uint32_t servers, std::uint32_t interval) {
  Plan plan;
  plan.servers = servers;
  plan.replication_interval = interval;
  plan.heartbeat_limit = Duration(400'000);
  plan.heartbeat_interval = Duration(40'000);
  plan.compute_min = Duration(10'000);
  plan.compute_max = Duration(30'000);
  return plan;
}

Outcome run_and_check(const Plan& plan) {
  Outcome outcome = sim::run(plan);
  INFO("seed " << plan.seed << " slack " << plan.job.slack.to_string() << " " << outcome.state
               << ": " << outcome.message);
  CHECK(outcome.done);
  if (outcome.broken) FAIL_CHECK(outcome.broken->rule << ": " << outcome.broken->what);
  return outcome;
}

}  // namespace

TEST_CASE("half of the seeds have all faults, and in the others each may be missing", "[sim]") {
  using sim::Faults;
  constexpr std::array kDrawn = {&Faults::drop,       &Faults::duplicate, &Faults::delay,
                                 &Faults::reorder,    &Faults::partition, &Faults::reconnect,
                                 &Faults::pause,      &Faults::kill,      &Faults::join,
                                 &Faults::slack,      &Faults::restart,   &Faults::disk,
                                 &Faults::server,     &Faults::follow,    &Faults::drain,
                                 &Faults::checkpoint, &Faults::shrink};
  constexpr int kSeeds = 2000;
  int with_all = 0;
  std::array<int, kDrawn.size()> with{};
  for (int seed = 1; seed <= kSeeds; ++seed) {
    const Faults faults = Faults::draw(static_cast<std::uint64_t>(seed));
    CHECK_FALSE(faults.stop);
    int count = 0;
    for (std::size_t i = 0; i < kDrawn.size(); ++i) {
      const bool is_drawn = faults.*kDrawn[i];
      with[i] += is_drawn ? 1 : 0;
      count += is_drawn ? 1 : 0;
    }
    with_all += count == static_cast<int>(kDrawn.size()) ? 1 : 0;
  }
  CHECK(with_all > kSeeds * 45 / 100);
  CHECK(with_all < kSeeds * 55 / 100);
  for (const int one : with) {
    CHECK(one > kSeeds * 70 / 100);
    CHECK(one < kSeeds * 80 / 100);
  }
}

TEST_CASE("a run on a calm network keeps the contract in every mode", "[sim]") {
  for (const Slack slack : {Slack(0), Slack(1), Slack(3), Slack::unbounded()}) {
    Plan plan;
    plan.job.slack = slack;
    const Outcome outcome = run_and_check(plan);
    CHECK(outcome.reads == 3UL * 20 * plan.job.tables);
  }
}

TEST_CASE("members bring the initial values, and those of the first are everyone's", "[sim]") {
  for (const Slack slack : {Slack(0), Slack(1), Slack(3), Slack::unbounded()}) {
    Plan plan;
    plan.job.slack = slack;
    plan.job.is_seeded = true;
    const Outcome calm = run_and_check(plan);
    // Nothing is read before the initial values are sent.
    CHECK(calm.reads == 3UL * 19 * plan.job.tables);
    plan.faults = rough();
    plan.servers = 2;
    run_and_check(plan);
  }
}

TEST_CASE("loss, repetition and reordering of messages never break the contract", "[sim]") {
  for (std::uint64_t seed = 1; seed <= 20; ++seed) {
    for (const Slack slack : {Slack(0), Slack(2), Slack::unbounded()}) {
      Plan plan;
      plan.seed = seed;
      plan.job.slack = slack;
      plan.servers = 2;
      plan.faults = rough();
      run_and_check(plan);
    }
  }
}

TEST_CASE("BSP under loss, repetition and reordering ends in the same bits, in 3 times the time",
          "[sim]") {
  Plan calm;
  calm.job = {
      .tables = 3, .slices = 2, .clocks = 100, .workers = 3, .slack = Slack(0), .mean = true};
  calm.servers = 2;
  calm.faults.delay_min = Duration(50);
  calm.faults.delay_max = Duration(300);
  Plan harmed = calm;
  harmed.faults.drop = 0.1;
  harmed.faults.duplicate = 0.1;
  harmed.faults.reorder = true;
  const Outcome without = run_and_check(calm);
  constexpr int kSeeds = 30;
  Duration all{0};
  for (std::uint64_t seed = 1; seed <= kSeeds; ++seed) {
    harmed.seed = seed;
    const Outcome with = run_and_check(harmed);
    CHECK(with.members == 3);
    CHECK(with.values_hash == without.values_hash);
    // One seed may draw the same message lost several times in a row.
    CHECK(with.trained <= 4 * without.trained);
    all += with.trained;
    std::cout << "BSP, 100 clocks: " << seconds(without.trained) << " s without faults, "
              << seconds(with.trained) << " s with, seed " << seed << "\n";
  }
  CHECK(all <= 3 * kSeeds * without.trained);
}

TEST_CASE("the same seed gives the same run, another one another", "[sim]") {
  const auto hash = [](std::uint64_t seed) {
    Plan plan;
    plan.seed = seed;
    plan.faults = rough();
    return sim::run(plan).hash;
  };
  CHECK(hash(3) == hash(3));
  CHECK(hash(3) != hash(4));
}

TEST_CASE("connections that break and recover lose and repeat nothing", "[sim]") {
  for (std::uint64_t seed = 1; seed <= 10; ++seed) {
    Plan plan;
    plan.seed = seed;
    plan.job.clocks = 60;
    plan.faults = rough();
    for (std::int64_t i = 1; i < 10; ++i) {
      plan.events.push_back({Duration(i * 30'000), Kind::kBreak,
                             plan.worker_node(static_cast<std::uint32_t>(i % 3))});
    }
    run_and_check(plan);
  }
}

TEST_CASE("a job that shrinks for one of higher priority and grows again keeps the contract",
          "[sim]") {
  for (std::uint64_t seed = 1; seed <= 10; ++seed) {
    for (const Slack slack : {Slack(0), Slack(2), Slack::unbounded()}) {
      Plan plan;
      plan.seed = seed;
      plan.job.slack = slack;
      plan.job.clocks = 200;
      plan.job.min_workers = 1;
      plan.compute_min = Duration(5'000);
      plan.compute_max = Duration(15'000);
      plan.servers = 2;
      if (seed % 2 == 0) plan.faults = rough();
      plan.events = {{Duration(0), Kind::kStart, 1},
                     {Duration(0), Kind::kStart, 2},
                     {Duration(500'000), Kind::kRival, 2},
                     {Duration(900'000), Kind::kEndRival, 0}};
      // Those that left have joined again, as other members.
      CHECK(run_and_check(plan).members == 5);
    }
  }
}

TEST_CASE("no clock that was trained is missing from what a stopped job saves", "[sim]") {
  for (std::uint64_t seed = 1; seed <= 20; ++seed) {
    for (const Slack slack : {Slack(0), Slack(2), Slack::unbounded()}) {
      Plan plan;
      plan.seed = seed;
      plan.job.slack = slack;
      plan.job.clocks = 200;
      plan.compute_min = Duration(1'000);
      plan.compute_max = Duration(9'000);
      plan.servers = 2;
      plan.may_fail = true;
      if (seed % 2 == 0) plan.faults = rough();
      if (seed % 4 < 2) plan.job.checkpoint_every = 7;
      plan.events = {{Duration(0), Kind::kStart, 1},
                     {Duration(0), Kind::kStart, 2},
                     {Duration(200'000 + static_cast<std::int64_t>(seed) * 3'000), Kind::kStop, 0}};
      const Outcome outcome = sim::run(plan);
      INFO("seed " << seed << " slack " << slack.to_string() << " " << outcome.message);
      CHECK(outcome.state == "STOPPED");
      CHECK(outcome.is_saved);
      if (outcome.broken) FAIL_CHECK(outcome.broken->rule << ": " << outcome.broken->what);
    }
  }
}

TEST_CASE("the bound and the mode may change while a job runs", "[sim]") {
  for (std::uint64_t seed = 1; seed <= 10; ++seed) {
    for (const Slack slack : {Slack(0), Slack(1)}) {
      Plan plan;
      plan.seed = seed;
      plan.job.slack = slack;
      plan.job.clocks = 200;
      plan.faults = rough();
      plan.events = {{Duration(200'000), Kind::kSetSlack, 4},
                     {Duration(400'000), Kind::kSetSlack, 2},
                     {Duration(600'000), Kind::kSetSlack, 0}};
      run_and_check(plan);
    }
  }
}

TEST_CASE("BSP ends in the same bits whenever a server is lost", "[sim]") {
  Plan calm = replicated(3, 3);
  calm.job = {
      .tables = 3, .slices = 3, .clocks = 60, .workers = 3, .slack = Slack(0), .mean = true};
  calm.shards_each = 1;
  const Outcome without = run_and_check(calm);
  for (std::int64_t moment = 0; moment < 20; ++moment) {
    Plan plan = calm;
    plan.faults = moment % 2 == 0 ? calm.faults : rough();
    // Backups are whole by then, and the job runs for more than a second.
    const Duration at(700'000 + moment * 23'000);
    plan.events = {{at, Kind::kKillServer, moment % 3, sim::NodeId(0)}};
    INFO("killed at " << at.count() << " us");
    const Outcome with = run_and_check(plan);
    CHECK(with.members == 3);
    CHECK(with.values_hash == without.values_hash);
  }
}

TEST_CASE("BSP ends in the same bits whenever a server is declared lost and lives on", "[sim]") {
  Plan calm = replicated(3, 3);
  calm.job = {
      .tables = 3, .slices = 3, .clocks = 120, .workers = 3, .slack = Slack(0), .mean = true};
  calm.shards_each = 1;
  const Outcome without = run_and_check(calm);
  for (std::int64_t moment = 0; moment < 40; ++moment) {
    Plan plan = calm;
    plan.faults = moment % 2 == 0 ? calm.faults : rough();
    const Duration at(700'000 + moment * 23'000);
    const Duration until = at + plan.heartbeat_limit * (1 + moment % 3);
    const sim::NodeId server = plan.server_node(static_cast<std::uint32_t>(moment % 3));
    const auto cut = [&](sim::NodeId from, sim::NodeId towards) {
      plan.events.push_back({at, Kind::kBlock, from, towards});
      plan.events.push_back({until, Kind::kUnblock, from, towards});
    };
    // Workers hear it in three of four cases.
    const std::int64_t way = moment / 3 % 4;
    if (way == 0) {
      plan.events = {{at, Kind::kPause, server, sim::NodeId(0)},
                     {until, Kind::kResume, server, sim::NodeId(0)}};
    }
    if (way == 1 || way == 3) cut(server, Plan::kCoordinatorNode);
    if (way == 2 || way == 3) cut(Plan::kCoordinatorNode, server);
    INFO("way " << way << " at " << at.count() << " us");
    const Outcome with = run_and_check(plan);
    CHECK(with.members == 3);
    CHECK(with.values_hash == without.values_hash);
  }
}

TEST_CASE("with two backups two servers are lost at about the same time", "[sim]") {
  Plan calm = replicated(4, 3);
  calm.replication_copies = 2;
  calm.shards_each = 1;
  for (const bool logs_updates : {false, true}) {
    for (const Slack slack : {Slack(0), Slack(2), Slack::unbounded()}) {
      calm.logs_updates = logs_updates;
      calm.job = {
          .tables = 3, .slices = 3, .clocks = 180, .workers = 3, .slack = slack, .mean = true};
      const Outcome without = run_and_check(calm);
      for (std::int64_t moment = 0; moment < 10; ++moment) {
        Plan plan = calm;
        plan.faults = moment % 2 == 0 ? calm.faults : rough();
        // An image that was lost twice has arrived by then.
        const Duration at(2'300'000 + moment * 13'000);
        // From together to after the first one's shards have been taken over.
        const Duration second = at + Duration(moment * 60'000);
        plan.events = {
            {at, Kind::kKillServer, moment % 4, sim::NodeId(0)},
            {second, Kind::kKillServer, (moment + 1 + moment / 4 % 3) % 4, sim::NodeId(0)}};
        INFO("killed at " << at.count() << " and " << second.count() << " us");
        const Outcome with = run_and_check(plan);
        // A worker may give up a shard whose answers are lost one after the other.
        if (moment % 2 == 0) CHECK(with.members == 3);
        if (slack == Slack(0) && with.members == 3) CHECK(with.values_hash == without.values_hash);
      }
    }
  }
}

TEST_CASE("servers are lost one after the other, and each comes back", "[sim]") {
  for (const Slack slack : {Slack(0), Slack(2), Slack::unbounded()}) {
    for (std::uint64_t seed = 1; seed <= 5; ++seed) {
      Plan plan = replicated(2, 2);
      plan.seed = seed;
      plan.job.slack = slack;
      plan.job.clocks = 150;
      for (std::int64_t i = 0; i < 3; ++i) {
        const Duration at(300'000 + i * 1'000'000);
        plan.events.push_back({at, Kind::kKillServer, i % 2, sim::NodeId(0)});
        plan.events.push_back({at + Duration(500'000), Kind::kStartServer, i % 2, sim::NodeId(0)});
      }
      run_and_check(plan);
    }
  }
}

TEST_CASE("BSP ends in the same bits whenever a server is drained, and comes back", "[sim]") {
  Plan calm = replicated(3, 3);
  calm.job = {
      .tables = 3, .slices = 3, .clocks = 60, .workers = 3, .slack = Slack(0), .mean = true};
  calm.shards_each = 1;
  const Outcome without = run_and_check(calm);
  for (std::int64_t moment = 0; moment < 20; ++moment) {
    Plan plan = calm;
    plan.seed = static_cast<std::uint64_t>(moment) + 2;
    const Duration at(300'000 + moment * 23'000);
    plan.events = {{at, Kind::kDrainServer, moment % 3, sim::NodeId(0)}};
    plan.drained_return = Duration(moment * 10'000);
    INFO("drained at " << at.count() << " us");
    const Outcome with = run_and_check(plan);
    CHECK(with.members == 3);
    CHECK(with.values_hash == without.values_hash);
  }
}

TEST_CASE("a one-way cut between any two processes, longer than the limit, breaks nothing",
          "[sim]") {
  Plan calm = replicated(3, 2);
  calm.job.clocks = 60;
  std::vector<sim::NodeId> nodes = {Plan::kCoordinatorNode};
  for (std::uint32_t i = 0; i < calm.servers; ++i) nodes.push_back(calm.server_node(i));
  for (std::uint32_t i = 0; i < calm.job.workers; ++i) nodes.push_back(calm.worker_node(i));
  int compared = 0;
  for (const Slack slack : {Slack(0), Slack(2)}) {
    calm.job.slack = slack;
    const Outcome without = run_and_check(calm);
    for (const sim::NodeId from : nodes) {
      for (const sim::NodeId towards : nodes) {
        if (from == towards) continue;
        Plan plan = calm;
        plan.events = {{Duration(250'000), Kind::kBlock, from, towards},
                       {Duration(1'250'000), Kind::kUnblock, from, towards}};
        INFO("from node " << from << " to node " << towards);
        const Outcome with = run_and_check(plan);
        // A worker that the coordinator does not hear is replaced by its next life.
        const bool is_of_worker = from >= calm.worker_node(0) || towards >= calm.worker_node(0);
        if (!is_of_worker) CHECK(with.members == calm.job.workers);
        if (slack != Slack(0) || with.members != calm.job.workers) continue;
        CHECK(with.values_hash == without.values_hash);
        ++compared;
      }
    }
  }
  CHECK(compared >= 30);
}

TEST_CASE("a backup that cannot be reached is given up for another one", "[sim]") {
  for (std::uint64_t seed = 1; seed <= 5; ++seed) {
    Plan plan = replicated(3, 2);
    plan.seed = seed;
    plan.job.slack = Slack(static_cast<std::int64_t>(seed % 3));
    plan.job.clocks = 300;
    plan.events = {{Duration(0), Kind::kBlock, plan.server_node(0), plan.server_node(1)},
                   {Duration(0), Kind::kBlock, plan.server_node(1), plan.server_node(0)},
                   // After more than the limit of 1.6 s: either has a backup on the third one.
                   {Duration(3'000'000), Kind::kKillServer, 0, sim::NodeId(0)}};
    run_and_check(plan);
  }
}

TEST_CASE("drains alone end no job, and every process comes back", "[sim]") {
  sim::PlanLimits limits;
  limits.faults.drain = true;
  for (std::uint64_t seed = 1; seed <= 200; ++seed) run_and_check(sim::draw_plan(seed, limits));
}

TEST_CASE("a worker that is drained loses no update, and its successor continues", "[sim]") {
  for (const Slack slack : {Slack(0), Slack(2), Slack::unbounded()}) {
    for (std::uint64_t seed = 1; seed <= 10; ++seed) {
      Plan plan = replicated(2, 2);
      plan.seed = seed;
      plan.job.slack = slack;
      plan.job.clocks = 60;
      const Duration at(100'000 + static_cast<std::int64_t>(seed) * 40'000);
      plan.events = {{at, Kind::kDrain, 1, sim::NodeId(0)}};
      plan.drained_return = Duration(100'000);
      const Outcome outcome = run_and_check(plan);
      CHECK(outcome.members == 4);
    }
  }
}

TEST_CASE("a coordinator that starts again together with a server knows of the whole backups",
          "[sim]") {
  for (std::uint64_t seed = 1; seed <= 20; ++seed) {
    Plan plan = replicated(2, 2);
    plan.seed = seed;
    plan.job.clocks = 100;
    const Duration at(600'000);
    const Duration again = at + Duration(30'000);
    // The server is here again, as another process, before the other one has reported.
    plan.events = {{at, Kind::kStopCoordinator, 0, sim::NodeId(0)},
                   {at, Kind::kKillServer, 0, sim::NodeId(0)},
                   {again, Kind::kStartCoordinator, 0, sim::NodeId(0)},
                   {again, Kind::kStartServer, 0, sim::NodeId(0)}};
    run_and_check(plan);
  }
}

TEST_CASE("the other workers continue when one is lost", "[sim]") {
  for (std::uint64_t seed = 1; seed <= 10; ++seed) {
    for (const Slack slack : {Slack(0), Slack(1), Slack::unbounded()}) {
      Plan plan;
      plan.seed = seed;
      plan.job.slack = slack;
      plan.job.clocks = 100;
      plan.faults = rough();
      plan.events = {{Duration(150'000), Kind::kKill, 1}};
      run_and_check(plan);
    }
  }
}

TEST_CASE("a lost worker returns as a new member", "[sim]") {
  for (std::uint64_t seed = 1; seed <= 10; ++seed) {
    for (const Slack slack : {Slack(0), Slack(2)}) {
      Plan plan;
      plan.seed = seed;
      plan.job.slack = slack;
      plan.job.clocks = 600;
      plan.faults = rough();
      plan.faults.drop = 0.01;
      plan.heartbeat_limit = Duration(500'000);
      plan.events = {{Duration(200'000), Kind::kKill, 1}, {Duration(900'000), Kind::kStart, 1}};
      CHECK(run_and_check(plan).members == 4);
    }
  }
}

TEST_CASE("a worker that slept until it was declared lost does no harm", "[sim]") {
  for (std::uint64_t seed = 1; seed <= 10; ++seed) {
    Plan plan;
    plan.seed = seed;
    plan.job.clocks = 600;
    plan.faults = rough();
    plan.heartbeat_limit = Duration(500'000);
    plan.events = {{Duration(200'000), Kind::kPause, plan.worker_node(1)},
                   {Duration(1'200'000), Kind::kResume, plan.worker_node(1)}};
    CHECK(run_and_check(plan).members == 4);
  }
}

TEST_CASE("a checkpoint has exactly the contract's updates, in every mode", "[sim]") {
  for (std::uint64_t seed = 1; seed <= 20; ++seed) {
    for (const Slack slack : {Slack(0), Slack(2), Slack::unbounded()}) {
      Plan plan;
      plan.seed = seed;
      plan.job.slack = slack;
      plan.job.clocks = 60;
      plan.job.checkpoint_every = 10;
      plan.servers = 2;
      plan.faults = rough();
      plan.events = {{Duration(20'000), Kind::kCheckpoint, 0}};
      const Outcome outcome = run_and_check(plan);
      CHECK(outcome.captured >= 2UL * plan.job.tables * plan.job.slices);
      CHECK(outcome.checkpoints == 2);
      CHECK(outcome.last_checkpoint == plan.job.clocks);
    }
  }
}

TEST_CASE("checkpoints continue when a worker is lost and when the coordinator restarts", "[sim]") {
  for (std::uint64_t seed = 1; seed <= 10; ++seed) {
    for (const Slack slack : {Slack(0), Slack(1)}) {
      Plan plan;
      plan.seed = seed;
      plan.job.slack = slack;
      plan.job.clocks = 150;
      plan.job.checkpoint_every = 20;
      plan.faults = rough();
      plan.faults.drop = 0.01;
      plan.heartbeat_limit = Duration(500'000);
      plan.events = {{Duration(100'000), Kind::kKill, 1},
                     {Duration(150'000), Kind::kStopCoordinator, 0},
                     {Duration(200'000), Kind::kStartCoordinator, 0}};
      CHECK(run_and_check(plan).last_checkpoint == plan.job.clocks);
    }
  }
}

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
  // Eleven meetings of four clocks, and one of what is left.
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
  // is read; what is read first makes up for it.
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
