// Which waiting jobs start, and which running ones make room.
#include "server/coordinator/scheduling.hpp"

#include <random>

#include "tests/support/catch.hpp"

namespace taut {
namespace {

ScheduledJob waiting(std::uint64_t job, std::uint32_t workers,
                     std::optional<double> remaining_s = {}) {
  return {.job = JobId(job),
          .min_workers = workers,
          .max_workers = workers,
          .remaining_s = remaining_s};
}

ScheduledJob running(std::uint64_t job, std::uint32_t workers,
                     std::optional<double> remaining_s = {}) {
  ScheduledJob one = waiting(job, workers, remaining_s);
  one.workers = workers;
  return one;
}

std::vector<std::uint64_t> started(
    const SchedulingState& state,
    pb::SchedulingConfig::Policy policy = pb::SchedulingConfig::FIFO) {
  std::vector<std::uint64_t> jobs;
  for (const auto& one : make_scheduling_policy(policy)->decide(state, false).starts) {
    jobs.push_back(one.job.value());
  }
  return jobs;
}

std::vector<std::uint64_t> preempted(const SchedulingState& state) {
  std::vector<std::uint64_t> jobs;
  const auto policy = make_scheduling_policy(pb::SchedulingConfig::FIFO);
  for (const JobId job : policy->decide(state, true).preemptions) jobs.push_back(job.value());
  return jobs;
}

using Jobs = std::vector<std::uint64_t>;

TEST_CASE("jobs start in order while workers last", "[scheduling]") {
  SchedulingState state{
      .waiting = {waiting(1, 2), waiting(2, 3), waiting(3, 2)}, .running = {}, .idle_workers = 7};
  CHECK(started(state) == Jobs{1, 2, 3});
  state.idle_workers = 4;
  CHECK(started(state) == Jobs{1});
  state.waiting[1].priority = 5;
  CHECK(started(state) == Jobs{2});
}

TEST_CASE("an elastic job takes what is idle, up to its limit", "[scheduling]") {
  SchedulingState state{.waiting = {waiting(1, 2)}, .running = {}, .idle_workers = 5};
  state.waiting[0].max_workers = 4;
  const auto policy = make_scheduling_policy(pb::SchedulingConfig::FIFO);
  REQUIRE(policy->decide(state, false).starts.size() == 1);
  CHECK(policy->decide(state, false).starts[0].workers == 4);
  state.idle_workers = 3;
  CHECK(policy->decide(state, false).starts[0].workers == 3);
}

TEST_CASE("a job behind one that waits starts only if that one is not delayed", "[scheduling]") {
  // Job 1 ends in 100 s; then job 2 has its four workers, and none is left.
  SchedulingState state{.waiting = {waiting(2, 4), waiting(3, 2)},
                        .running = {running(1, 2, 100)},
                        .idle_workers = 2};
  SECTION("it may train for longer than the first one waits") {
    CHECK(started(state).empty());
    state.waiting[1].remaining_s = 101;
    CHECK(started(state).empty());
  }
  SECTION("it ends before") {
    state.waiting[1].remaining_s = 100;
    CHECK(started(state) == Jobs{3});
  }
  SECTION("it ends soon, and the running job at an unknown time") {
    state.running[0].remaining_s.reset();
    state.waiting[1].remaining_s = 1;
    CHECK(started(state).empty());
  }
  SECTION("it leaves enough workers") {
    state.running.push_back(running(4, 3, 500));
    state.waiting[0].min_workers = 3;
    state.waiting[1].min_workers = 1;
    state.waiting[1].max_workers = 2;
    const auto policy = make_scheduling_policy(pb::SchedulingConfig::FIFO);
    const auto starts = policy->decide(state, false).starts;
    REQUIRE(starts.size() == 1);
    CHECK(starts[0].job == JobId(3));
    CHECK(starts[0].workers == 1);
  }
  SECTION("no set of workers suffices for the first one") {
    state.waiting[0].min_workers = 5;
    CHECK(started(state) == Jobs{3});
  }
  SECTION("the running job is ending") {
    state.running[0].ends = true;
    state.waiting[1].remaining_s = 1;
    CHECK(started(state).empty());
  }
}

TEST_CASE("policies order jobs of one priority", "[scheduling]") {
  SchedulingState state{.waiting = {waiting(1, 2), waiting(2, 2, 50), waiting(3, 2, 20)},
                        .running = {},
                        .idle_workers = 2};
  CHECK(started(state) == Jobs{1});
  CHECK(started(state, pb::SchedulingConfig::SHORTEST_REMAINING) == Jobs{3});
  state.waiting[0].service_s = 10;
  state.waiting[2].service_s = 5;
  CHECK(started(state, pb::SchedulingConfig::LEAST_ATTAINED_SERVICE) == Jobs{2});
}

TEST_CASE("jobs of lower priority make room, the lowest and newest first", "[scheduling]") {
  SchedulingState state{.waiting = {waiting(9, 3)},
                        .running = {running(1, 2), running(2, 2), running(3, 2)},
                        .idle_workers = 0};
  CHECK(preempted(state).empty());
  state.waiting[0].priority = 2;
  state.running[0].priority = 1;
  CHECK(preempted(state) == Jobs{3, 2});
  // One is on its way already.
  state.running[2].ends = true;
  CHECK(preempted(state) == Jobs{2});
  state.running[1].ends = true;
  CHECK(preempted(state).empty());
  // All of them would not be enough.
  state.running[1].ends = state.running[2].ends = false;
  state.running[0].priority = state.running[1].priority = 3;
  CHECK(preempted(state).empty());
}

TEST_CASE("no decision gives out more workers than are idle, or fewer than a job needs",
          "[scheduling]") {
  std::mt19937_64 random(7);
  const auto draw = [&random](std::uint32_t limit) {
    return static_cast<std::uint32_t>(random() % limit);
  };
  for (int round = 0; round < 5000; ++round) {
    SchedulingState state;
    std::uint64_t job = 1;
    for (std::uint32_t i = draw(5); i > 0; --i) {
      state.running.push_back(running(job++, draw(5)));
      state.running.back().priority = static_cast<std::int32_t>(draw(3));
      state.running.back().ends = draw(4) == 0;
      if (draw(2) == 0) state.running.back().remaining_s = draw(100);
    }
    for (std::uint32_t i = draw(6); i > 0; --i) {
      state.waiting.push_back(waiting(job++, 1 + draw(5)));
      ScheduledJob& one = state.waiting.back();
      one.max_workers += draw(3);
      one.priority = static_cast<std::int32_t>(draw(3));
      if (draw(2) == 0) one.remaining_s = draw(100);
    }
    state.idle_workers = draw(10);
    const auto policy = make_scheduling_policy(static_cast<pb::SchedulingConfig::Policy>(draw(3)));
    const SchedulingDecision decision = policy->decide(state, draw(2) == 0);
    std::uint32_t given = 0;
    for (const auto& start : decision.starts) {
      given += start.workers;
      const auto asked = std::ranges::find(state.waiting, start.job, &ScheduledJob::job);
      REQUIRE(asked != state.waiting.end());
      CHECK(start.workers >= asked->min_workers);
      CHECK(start.workers <= asked->max_workers);
    }
    CHECK(given <= state.idle_workers);
    for (const JobId victim : decision.preemptions) {
      const auto found = std::ranges::find(state.running, victim, &ScheduledJob::job);
      REQUIRE(found != state.running.end());
      CHECK_FALSE(found->ends);
    }
  }
}

TEST_CASE("workers are chosen on as few hosts as can be", "[scheduling]") {
  const std::vector<IdleWorker> idle = {{"a0", "a"}, {"b0", "b"}, {"a1", "a"},
                                        {"c0", "c"}, {"a2", "a"}, {"b1", "b"}};
  using Positions = std::vector<std::size_t>;
  CHECK(choose_workers(idle, 1) == Positions{3});
  CHECK(choose_workers(idle, 2) == Positions{1, 5});
  CHECK(choose_workers(idle, 3) == Positions{0, 2, 4});
  CHECK(choose_workers(idle, 4) == Positions{0, 2, 3, 4});
  CHECK(choose_workers(idle, 6) == Positions{0, 1, 2, 3, 4, 5});
  CHECK(choose_workers(idle, 0).empty());
}

}  // namespace
}  // namespace taut
