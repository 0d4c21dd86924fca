#include <array>
#include <iostream>

#include "tests/sim/checked_run.hpp"

using namespace taut;
using taut::sim::Outcome;
using taut::sim::Plan;
using taut::test::rough;
using taut::test::run_and_check;
using Kind = taut::sim::Plan::Event::Kind;

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

TEST_CASE("BSP under loss, repetition and reordering ends in the same bits, in 3.5 times the time",
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
    // A seed may draw the loss of the same message several times in a row.
    CHECK(with.trained <= 5 * without.trained);
    all += with.trained;
    std::cout << "BSP, 100 clocks: " << seconds(without.trained) << " s without faults, "
              << seconds(with.trained) << " s with, seed " << seed << "\n";
  }
  CHECK(2 * all <= 7 * kSeeds * without.trained);
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
                     {Duration(500'000), Kind::kPreemptingJob, 2},
                     {Duration(900'000), Kind::kEndPreemptingJob, 0}};
      // The workers that left have joined again, as other members.
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
