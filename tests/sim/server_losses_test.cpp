// Servers that are lost, cut off or drained, and backups that take over.
#include <vector>

#include "tests/sim/checked_run.hpp"

using namespace taut;
using taut::sim::Outcome;
using taut::sim::Plan;
using taut::test::replicated;
using taut::test::rough;
using taut::test::run_and_check;
using Kind = taut::sim::Plan::Event::Kind;

TEST_CASE("BSP ends in the same bits whenever a server is lost", "[sim]") {
  Plan calm = replicated(3, 3);
  calm.job = {
      .tables = 3, .slices = 3, .clocks = 60, .workers = 3, .slack = Slack(0), .mean = true};
  calm.shards_each = 1;
  const Outcome without = run_and_check(calm);
  for (std::int64_t moment = 0; moment < 20; ++moment) {
    Plan plan = calm;
    plan.faults = moment % 2 == 0 ? calm.faults : rough();
    // Backups are complete by then, and the job runs for more than a second.
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
        // From at the same time to after the first one's shards have been taken over.
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
        // A worker that the coordinator does not hear is replaced by its next incarnation.
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
    // The server is running again, as another process, before the other one has reported.
    plan.events = {{at, Kind::kStopCoordinator, 0, sim::NodeId(0)},
                   {at, Kind::kKillServer, 0, sim::NodeId(0)},
                   {again, Kind::kStartCoordinator, 0, sim::NodeId(0)},
                   {again, Kind::kStartServer, 0, sim::NodeId(0)}};
    run_and_check(plan);
  }
}
