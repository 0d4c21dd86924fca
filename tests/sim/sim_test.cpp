#include <map>
#include <set>
#include <sstream>

#include "tests/sim/sim_cluster.hpp"
#include "tests/support/catch.hpp"

using namespace taut;
using taut::sim::Outcome;
using taut::sim::Plan;
using taut::sim::ReadRecord;

namespace {

NetworkFaults rough() {
  NetworkFaults faults;
  faults.drop = 0.05;
  faults.duplicate = 0.05;
  faults.reorder = true;
  faults.delay_min = Duration(50);
  faults.delay_max = Duration(3000);
  return faults;
}

/// The contract on every read, from the values alone: element w is minus the number of w's updates.
/// members  who takes part from the first clock to the last
void check_reads(const Outcome& outcome, std::uint32_t members) {
  std::map<std::pair<std::uint32_t, std::uint32_t>, std::vector<float>> last;
  for (const ReadRecord& read : outcome.reads) {
    INFO("member " << read.member << " table " << read.table << " clock " << read.clock
                   << " version " << read.version << " slack " << read.slack.to_string());
    CHECK(-read.values[read.member.value()] >= static_cast<float>(read.clock.value()));
    if (!read.slack.is_unbounded()) {
      CHECK(read.clock - read.version <= read.slack.clocks());
      for (std::uint32_t w = 0; w < members; ++w) {
        CHECK(-read.values[w] >= static_cast<float>(read.clock.value() - read.slack.clocks()));
      }
    }
    auto& before = last[{read.member.value(), read.table}];
    if (!before.empty()) {
      for (std::size_t w = 0; w < before.size(); ++w) CHECK(read.values[w] <= before[w]);
    }
    before = read.values;
  }
}

Outcome run_and_check(const Plan& plan) {
  INFO("seed " << plan.seed);
  Outcome outcome = sim::run(plan);
  INFO(outcome.state << ": " << outcome.message);
  CHECK(outcome.ended);
  check_reads(outcome, static_cast<std::uint32_t>(plan.workers));
  return outcome;
}

}  // namespace

TEST_CASE("a run on a calm network keeps the contract in every mode", "[sim]") {
  for (const Slack slack : {Slack(0), Slack(1), Slack(3), Slack::unbounded()}) {
    Plan plan;
    plan.slack = slack;
    const Outcome outcome = run_and_check(plan);
    CHECK(outcome.reads.size() == 3UL * 20 * 5);
  }
}

TEST_CASE("loss, repetition and reordering of messages never break the contract", "[sim]") {
  for (std::uint64_t seed = 1; seed <= 20; ++seed) {
    for (const Slack slack : {Slack(0), Slack(2), Slack::unbounded()}) {
      Plan plan;
      plan.seed = seed;
      plan.slack = slack;
      plan.servers = 2;
      plan.faults = rough();
      run_and_check(plan);
    }
  }
}

TEST_CASE("BSP reads the same bits whatever the network does", "[sim]") {
  const auto reads_of = [](std::uint64_t seed, const NetworkFaults& faults) {
    Plan plan;
    plan.seed = seed;
    plan.slack = Slack(0);
    plan.faults = faults;
    std::map<std::tuple<std::uint32_t, std::uint32_t, Clock>, std::vector<float>> reads;
    for (const ReadRecord& read : run_and_check(plan).reads) {
      reads[{read.member.value(), read.table, read.clock}] = read.values;
    }
    return reads;
  };
  CHECK(reads_of(1, {}) == reads_of(2, rough()));
}

TEST_CASE("the same seed gives the same run", "[sim]") {
  const auto trace = [](std::uint64_t seed) {
    Plan plan;
    plan.seed = seed;
    plan.faults = rough();
    const Outcome outcome = sim::run(plan);
    std::ostringstream text;
    text << outcome.took.since_origin().count() << " " << outcome.messages;
    for (const ReadRecord& read : outcome.reads) {
      text << " " << read.member << "," << read.table << "," << read.clock << "," << read.version;
    }
    return text.str();
  };
  CHECK(trace(3) == trace(3));
  CHECK(trace(3) != trace(4));
}

TEST_CASE("connections that break and come back lose and repeat nothing", "[sim]") {
  for (std::uint64_t seed = 1; seed <= 10; ++seed) {
    Plan plan;
    plan.seed = seed;
    plan.clocks = 60;
    plan.faults = rough();
    for (int i = 1; i < 10; ++i) {
      plan.events.push_back({Duration(i * 30'000), Plan::Event::Kind::kBreakConnections, i % 3});
    }
    run_and_check(plan);
  }
}

TEST_CASE("the slack may be raised and lowered while a job runs", "[sim]") {
  for (std::uint64_t seed = 1; seed <= 10; ++seed) {
    Plan plan;
    plan.seed = seed;
    plan.clocks = 200;
    plan.slack = Slack(1);
    plan.faults = rough();
    plan.events = {{Duration(200'000), Plan::Event::Kind::kSetSlack, 4},
                   {Duration(500'000), Plan::Event::Kind::kSetSlack, 2}};
    INFO("seed " << seed);
    const Outcome outcome = sim::run(plan);
    INFO(outcome.message);
    CHECK(outcome.ended);
    std::int64_t stalest = 0;
    for (const ReadRecord& read : outcome.reads) {
      stalest = std::max(stalest, read.clock - read.version);
    }
    CHECK(stalest <= 4);
  }
}

TEST_CASE("a job changes between BSP and SSP at a clock ahead of every worker", "[sim]") {
  for (std::uint64_t seed = 1; seed <= 10; ++seed) {
    Plan plan;
    plan.seed = seed;
    plan.clocks = 300;
    plan.slack = Slack(0);
    plan.faults = rough();
    plan.events = {{Duration(300'000), Plan::Event::Kind::kSetSlack, 3},
                   {Duration(900'000), Plan::Event::Kind::kSetSlack, 0}};
    INFO("seed " << seed);
    const Outcome outcome = sim::run(plan);
    INFO(outcome.message);
    CHECK(outcome.ended);
    for (const ReadRecord& read : outcome.reads) {
      CHECK(read.clock - read.version <= 3);
      CHECK(-read.values[read.member.value()] >= static_cast<float>(read.clock.value()));
    }
  }
}

TEST_CASE("the others go on when a worker is lost", "[sim]") {
  for (std::uint64_t seed = 1; seed <= 10; ++seed) {
    for (const Slack slack : {Slack(0), Slack(1), Slack::unbounded()}) {
      Plan plan;
      plan.seed = seed;
      plan.slack = slack;
      plan.clocks = 100;
      plan.faults = rough();
      plan.events = {{Duration(150'000), Plan::Event::Kind::kKillWorker, 1}};
      INFO("seed " << seed << " slack " << slack.to_string());
      const Outcome outcome = sim::run(plan);
      INFO(outcome.state << ": " << outcome.message);
      CHECK(outcome.ended);
      std::map<std::uint32_t, Clock> reached;
      for (const ReadRecord& read : outcome.reads) {
        reached[read.member.value()] = std::max(reached[read.member.value()], read.clock);
      }
      CHECK(reached[0] == Clock(99));
      CHECK(reached[2] == Clock(99));
      CHECK(reached[1] < Clock(99));
    }
  }
}

TEST_CASE("a worker that is lost and comes back joins anew at a later clock", "[sim]") {
  for (std::uint64_t seed = 1; seed <= 10; ++seed) {
    for (const Slack slack : {Slack(0), Slack(2)}) {
      Plan plan;
      plan.seed = seed;
      plan.slack = slack;
      plan.clocks = 3000;
      plan.faults = rough();
      plan.faults.drop = 0.01;
      plan.heartbeat_limit = Duration(800'000);
      plan.events = {{Duration(300'000), Plan::Event::Kind::kKillWorker, 1},
                     {Duration(2'000'000), Plan::Event::Kind::kStartWorker, 1}};
      INFO("seed " << seed << " slack " << slack.to_string());
      const Outcome outcome = sim::run(plan);
      INFO(outcome.state << ": " << outcome.message);
      CHECK(outcome.ended);
      std::map<std::uint32_t, std::pair<Clock, Clock>> clocks;
      for (const ReadRecord& read : outcome.reads) {
        const auto [entry, added] = clocks.try_emplace(read.member.value(), read.clock, read.clock);
        entry->second.second = std::max(entry->second.second, read.clock);
      }
      REQUIRE(clocks.contains(3));
      CHECK(clocks[3].first > clocks[1].second);
      CHECK(clocks[3].second == Clock(2999));
    }
  }
}
