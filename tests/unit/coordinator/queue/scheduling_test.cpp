// Which waiting jobs start, and which running ones make room.
#include "server/coordinator/queue/scheduling.hpp"

#include <map>
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

constexpr SchedulingPolicy::Ways kOnlyStarts{.shrinks = false, .preempts = false};
constexpr SchedulingPolicy::Ways kShrinks{.shrinks = true, .preempts = false};
constexpr SchedulingPolicy::Ways kPreempts{.shrinks = false, .preempts = true};
constexpr SchedulingPolicy::Ways kBoth{.shrinks = true, .preempts = true};

SchedulingDecision fifo(const SchedulingState& state, SchedulingPolicy::Ways ways = kOnlyStarts) {
  return make_scheduling_policy(pb::SchedulingConfig::FIFO)->decide(state, ways);
}

std::vector<std::uint64_t> started(
    const SchedulingState& state,
    pb::SchedulingConfig::Policy policy = pb::SchedulingConfig::FIFO) {
  std::vector<std::uint64_t> jobs;
  for (const auto& one : make_scheduling_policy(policy)->decide(state, kOnlyStarts).starts) {
    jobs.push_back(one.job.value());
  }
  return jobs;
}

std::vector<std::uint64_t> preempted(const SchedulingState& state) {
  std::vector<std::uint64_t> jobs;
  const auto policy = make_scheduling_policy(pb::SchedulingConfig::FIFO);
  for (const JobId job : policy->decide(state, kPreempts).preemptions) jobs.push_back(job.value());
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
  REQUIRE(policy->decide(state, kOnlyStarts).starts.size() == 1);
  CHECK(policy->decide(state, kOnlyStarts).starts[0].workers == 4);
  state.idle_workers = 3;
  CHECK(policy->decide(state, kOnlyStarts).starts[0].workers == 3);
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
    const auto starts = policy->decide(state, kOnlyStarts).starts;
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

TEST_CASE("no job makes room in vain", "[scheduling]") {
  // The lowest has one worker, and the next one all that are needed.
  SchedulingState state{
      .waiting = {waiting(9, 4)}, .running = {running(1, 4), running(2, 1)}, .idle_workers = 0};
  state.waiting[0].priority = 2;
  state.running[0].priority = 1;
  CHECK(preempted(state) == Jobs{1});
  state.waiting[0].min_workers = state.waiting[0].max_workers = 5;
  CHECK(preempted(state) == Jobs{2, 1});
  // One that cannot be saved does not end.
  state.running[1].keeps = true;
  CHECK(preempted(state).empty());
}

using Sizes = std::map<std::uint64_t, std::uint32_t>;

Sizes sizes_of(const std::vector<SchedulingDecision::Resize>& resizes) {
  Sizes sizes;
  for (const auto& one : resizes) sizes[one.job.value()] = one.workers;
  return sizes;
}

/// A running job that may have fewer or more workers.
ScheduledJob elastic(std::uint64_t job, std::uint32_t least, std::uint32_t workers,
                     std::uint32_t most) {
  ScheduledJob one = running(job, workers);
  one.min_workers = least;
  one.max_workers = most;
  return one;
}

const SchedulingDecision::Wait& wait_of(const SchedulingDecision& decision, std::uint64_t job) {
  const auto found = std::ranges::find(decision.waits, JobId(job), &SchedulingDecision::Wait::job);
  REQUIRE(found != decision.waits.end());
  return *found;
}

TEST_CASE("jobs of lower priority shrink, the lowest and newest first, by as much as is missing",
          "[scheduling]") {
  SchedulingState state{.waiting = {waiting(9, 4)},
                        .running = {elastic(1, 1, 4, 4), elastic(2, 2, 4, 4), elastic(3, 1, 2, 4)},
                        .idle_workers = 1};
  CHECK(fifo(state, kBoth).shrinks.empty());
  state.waiting[0].priority = 2;
  CHECK(sizes_of(fifo(state, kShrinks).shrinks) == Sizes{{2, 2}, {3, 1}});
  CHECK(fifo(state, kOnlyStarts).shrinks.empty());
  state.running[2].priority = 1;
  CHECK(sizes_of(fifo(state, kShrinks).shrinks) == Sizes{{1, 3}, {2, 2}});
  // Those of its own priority keep theirs, and the others together are not enough.
  state.running[0].priority = 2;
  state.waiting[0].min_workers = state.waiting[0].max_workers = 5;
  CHECK(fifo(state, kShrinks).shrinks.empty());
}

TEST_CASE("whole jobs make room only where shrinking is not enough", "[scheduling]") {
  SchedulingState state{.waiting = {waiting(9, 3)},
                        .running = {elastic(1, 1, 3, 3), running(2, 2)},
                        .idle_workers = 1};
  state.waiting[0].priority = 1;
  SchedulingDecision decision = fifo(state, kBoth);
  CHECK(sizes_of(decision.shrinks) == Sizes{{1, 1}});
  CHECK(decision.preemptions.empty());
  state.waiting[0].min_workers = state.waiting[0].max_workers = 4;
  decision = fifo(state, kBoth);
  CHECK(sizes_of(decision.shrinks) == Sizes{{1, 2}});
  CHECK(decision.preemptions == std::vector{JobId(2)});
  // A job that is given up as a whole does not shrink too.
  state.waiting[0].min_workers = state.waiting[0].max_workers = 6;
  decision = fifo(state, kBoth);
  CHECK(decision.shrinks.empty());
  CHECK(decision.preemptions == std::vector{JobId(2), JobId(1)});
}

TEST_CASE("workers that nothing is reserved for go to running jobs that may have more",
          "[scheduling]") {
  SchedulingState state{.waiting = {},
                        .running = {elastic(1, 1, 1, 3), elastic(2, 1, 1, 3), running(3, 1)},
                        .idle_workers = 3};
  CHECK(sizes_of(fifo(state).growths) == Sizes{{1, 3}, {2, 2}});
  state.running[1].priority = 1;
  CHECK(sizes_of(fifo(state).growths) == Sizes{{1, 2}, {2, 3}});
  // Those that it lost come first, and count among those that it has.
  state.running[0].owed = 2;
  CHECK(sizes_of(fifo(state).growths) == Sizes{{2, 2}});
  state.running[0].owed = 0;
  SECTION("a job that waits starts instead") {
    state.waiting = {waiting(7, 2)};
    CHECK(started(state) == Jobs{7});
    CHECK(sizes_of(fifo(state).growths) == Sizes{{2, 2}});
  }
  SECTION("or has reserved them") {
    state.waiting = {waiting(7, 4)};
    CHECK(started(state).empty());
    CHECK(fifo(state).growths.empty());
  }
  SECTION("but not if all workers together are too few for it") {
    state.waiting = {waiting(7, 9)};
    CHECK(wait_of(fifo(state), 7).reason == WaitReason::kTooLarge);
    CHECK(wait_of(fifo(state), 7).fitting == 6);
    CHECK(sizes_of(fifo(state).growths) == Sizes{{1, 2}, {2, 3}});
  }
  SECTION("a job that ends gets none") {
    state.running[0].ends = state.running[1].ends = true;
    CHECK(fifo(state).growths.empty());
  }
}

TEST_CASE("a job that exceeds its user's quota waits and holds up no other", "[scheduling]") {
  SchedulingState state{.waiting = {waiting(5, 3), waiting(6, 2), waiting(7, 1)},
                        .running = {running(1, 2), running(2, 1)},
                        .idle_workers = 3};
  state.running[0].user = state.waiting[0].user = state.waiting[2].user = "alice";
  state.running[1].user = state.waiting[1].user = "bob";
  CHECK(started(state) == Jobs{5});
  SECTION("workers") {
    state.quotas = {{"alice", 4, 0}};
    CHECK(wait_of(fifo(state), 5).reason == WaitReason::kQuotaWorkers);
    CHECK(started(state) == Jobs{6, 7});
  }
  SECTION("workers, of which an elastic job takes what is left") {
    state.quotas = {{"alice", 4, 0}};
    state.waiting[0].min_workers = 1;
    const auto starts = fifo(state).starts;
    REQUIRE(starts.size() == 1);
    CHECK(starts[0].job == JobId(5));
    CHECK(starts[0].workers == 2);
  }
  SECTION("jobs") {
    state.quotas = {{"alice", 0, 1}};
    CHECK(wait_of(fifo(state), 5).reason == WaitReason::kQuotaJobs);
    CHECK(wait_of(fifo(state), 7).reason == WaitReason::kQuotaJobs);
    CHECK(started(state) == Jobs{6});
  }
  SECTION("each other user's") {
    state.quotas = {{"alice", 9, 9}, {std::nullopt, 2, 0}};
    CHECK(started(state) == Jobs{5});
    state.waiting[0].user = "carol";
    CHECK(wait_of(fifo(state), 5).reason == WaitReason::kQuotaWorkers);
    CHECK(wait_of(fifo(state), 6).reason == WaitReason::kQuotaWorkers);
    CHECK(started(state) == Jobs{7});
  }
  SECTION("running jobs grow within it") {
    state.waiting.clear();
    state.running[0].max_workers = 5;
    state.quotas = {{"alice", 3, 0}};
    CHECK(sizes_of(fifo(state).growths) == Sizes{{1, 3}});
  }
}

/// Four workers on two hosts with 10 units of memory each; those of host b have two devices.
WorkerList two_hosts() {
  WorkerList list;
  for (int i = 0; i < 4; ++i) {
    WorkerPlace& place = list.workers.emplace_back();
    place.name = "w" + std::to_string(i);
    place.host = i < 2 ? "a" : "b";
    place.devices = i < 2 ? 0 : 2;
    place.memory = i < 2 ? 0 : 1;
  }
  list.memory = {10, 10};
  return list;
}

using Places = std::vector<std::size_t>;

TEST_CASE("a job starts on workers that have the devices and the memory that it requires",
          "[scheduling]") {
  SchedulingState state{.waiting = {waiting(1, 2)}, .running = {}, .workers = two_hosts()};
  const auto places = [&state] {
    const auto starts = fifo(state).starts;
    return starts.empty() ? Places() : starts[0].places;
  };
  // What requires none leaves the devices to others.
  CHECK(places() == Places{0, 1});
  state.waiting[0].demand.devices = 1;
  CHECK(places() == Places{2, 3});
  state.waiting[0].demand = {.memory = 6};
  // One of each host, as two of one have too little together.
  CHECK(places() == Places{0, 2});
  state.waiting[0].demand = {.memory = 6, .devices = 2};
  CHECK(places().empty());
  CHECK(wait_of(fifo(state), 1).reason == WaitReason::kTooLarge);
  CHECK(wait_of(fifo(state), 1).fitting == 1);
  state.workers.workers[3].memory = 2;
  state.workers.memory.push_back(6);
  CHECK(places() == Places{2, 3});
  state.workers.memory[2] = 5;
  CHECK(places().empty());
}

TEST_CASE("a job that waits for devices does not hold up those that require none", "[scheduling]") {
  SchedulingState state{.waiting = {waiting(2, 2), waiting(3, 2), waiting(4, 1)},
                        .running = {running(1, 1)},
                        .workers = two_hosts()};
  state.workers.workers[2].job = JobId(1);
  state.waiting[0].demand.devices = 1;
  CHECK(started(state) == Jobs{3});
  CHECK(wait_of(fifo(state), 2).reason == WaitReason::kWorkers);
  CHECK(wait_of(fifo(state), 2).fitting == 1);
  // The idle worker with devices is reserved.
  CHECK(wait_of(fifo(state), 4).reason == WaitReason::kBehind);
  CHECK(wait_of(fifo(state), 4).behind == JobId(2));
}

TEST_CASE("workers of a job that starts now are free for the first one that waits when it ends",
          "[scheduling]") {
  // Job 1 runs for long; job 2 starts, and once it has ended there are four workers for job 3.
  SchedulingState state{.waiting = {waiting(2, 2, 10), waiting(3, 4), waiting(4, 2, 500)},
                        .running = {running(1, 2, 1000)},
                        .workers = two_hosts()};
  WorkerPlace extra = state.workers.workers[0];
  for (const char* name : {"w4", "w5"}) {
    extra.name = name;
    extra.job = JobId(1);
    state.workers.workers.push_back(extra);
  }
  CHECK(started(state) == Jobs{2});
  CHECK(wait_of(fifo(state), 4).reason == WaitReason::kBehind);
  CHECK(wait_of(fifo(state), 4).behind == JobId(3));
  // One that ends before job 2 delays nothing.
  state.waiting[2].remaining_s = 10;
  CHECK(started(state) == Jobs{2, 4});
}

TEST_CASE("a job shrinks by workers that the one of higher priority can use", "[scheduling]") {
  SchedulingState state{
      .waiting = {waiting(2, 1)}, .running = {elastic(1, 2, 4, 4)}, .workers = two_hosts()};
  for (WorkerPlace& worker : state.workers.workers) worker.job = JobId(1);
  std::swap(state.workers.workers[0], state.workers.workers[3]);
  state.waiting[0].priority = 1;
  state.waiting[0].demand.devices = 2;
  SchedulingDecision decision = fifo(state, kShrinks);
  REQUIRE(decision.shrinks.size() == 1);
  CHECK(decision.shrinks[0].workers == 3);
  CHECK(decision.shrinks[0].leaving == Places{2});
  // It is on its way.
  state.workers.workers[2].leaves = true;
  state.running[0].workers = 3;
  CHECK(fifo(state, kShrinks).shrinks.empty());
  CHECK(wait_of(fifo(state, kShrinks), 2).reason == WaitReason::kWorkers);
}

TEST_CASE("a job that has no devices does not make room for one that requires them",
          "[scheduling]") {
  SchedulingState state{.waiting = {waiting(3, 2)},
                        .running = {running(1, 2), running(2, 2)},
                        .workers = two_hosts()};
  for (std::size_t i = 0; i < 4; ++i) {
    state.workers.workers[i].job = i < 2 ? JobId(2) : JobId(1);
  }
  state.waiting[0].priority = 1;
  state.waiting[0].demand.devices = 2;
  CHECK(preempted(state) == Jobs{1});
}

TEST_CASE("a job waits for memory of the servers and holds up no other", "[scheduling]") {
  SchedulingState state{.waiting = {waiting(1, 1), waiting(2, 1), waiting(3, 1)},
                        .running = {},
                        .idle_workers = 3,
                        .server_memory = 100};
  for (ScheduledJob& job : state.waiting) job.server_memory = 60;
  state.waiting[2].server_memory = 40;
  CHECK(started(state) == Jobs{1, 3});
  CHECK(wait_of(fifo(state), 2).reason == WaitReason::kServerMemory);
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
      state.running.back().min_workers -= std::min(draw(3), state.running.back().min_workers);
      state.running.back().max_workers += draw(3);
      state.running.back().user = draw(2) == 0 ? "alice" : "bob";
      if (draw(2) == 0) state.running.back().remaining_s = draw(100);
    }
    for (std::uint32_t i = draw(6); i > 0; --i) {
      state.waiting.push_back(waiting(job++, 1 + draw(5)));
      ScheduledJob& one = state.waiting.back();
      one.max_workers += draw(3);
      one.user = draw(2) == 0 ? "alice" : "bob";
      one.priority = static_cast<std::int32_t>(draw(3));
      if (draw(2) == 0) one.remaining_s = draw(100);
    }
    state.idle_workers = draw(10);
    if (draw(2) == 0) state.quotas = {{"alice", draw(8), draw(3)}};
    const auto policy = make_scheduling_policy(static_cast<pb::SchedulingConfig::Policy>(draw(3)));
    const SchedulingDecision decision =
        policy->decide(state, {.shrinks = draw(2) == 0, .preempts = draw(2) == 0});
    std::uint32_t given = 0;
    for (const auto& start : decision.starts) {
      given += start.workers;
      const auto asked = std::ranges::find(state.waiting, start.job, &ScheduledJob::job);
      REQUIRE(asked != state.waiting.end());
      CHECK(start.workers >= asked->min_workers);
      CHECK(start.workers <= asked->max_workers);
    }
    for (const auto& growth : decision.growths) {
      const auto found = std::ranges::find(state.running, growth.job, &ScheduledJob::job);
      REQUIRE(found != state.running.end());
      CHECK(growth.workers > found->workers);
      CHECK(growth.workers <= found->max_workers);
      given += growth.workers - found->workers;
    }
    CHECK(given <= state.idle_workers);
    CHECK(decision.starts.size() + decision.waits.size() == state.waiting.size());
    for (const auto& shrink : decision.shrinks) {
      const auto found = std::ranges::find(state.running, shrink.job, &ScheduledJob::job);
      REQUIRE(found != state.running.end());
      CHECK_FALSE(found->ends);
      CHECK(shrink.workers < found->workers);
      CHECK(shrink.workers >= found->min_workers);
      CHECK(std::ranges::count(decision.preemptions, shrink.job) == 0);
      CHECK(std::ranges::count(decision.growths, shrink.job, &SchedulingDecision::Resize::job) ==
            0);
    }
    std::uint32_t of_alice = 0;
    for (const ScheduledJob& job : state.running) of_alice += job.user == "alice" ? job.workers : 0;
    const std::uint32_t had = of_alice;
    for (const auto& start : decision.starts) {
      const auto asked = std::ranges::find(state.waiting, start.job, &ScheduledJob::job);
      of_alice += asked->user == "alice" ? start.workers : 0;
    }
    const bool is_limited = !state.quotas.empty() && state.quotas[0].workers > 0;
    if (is_limited) CHECK(of_alice <= std::max(had, state.quotas[0].workers));
    for (const JobId victim : decision.preemptions) {
      const auto found = std::ranges::find(state.running, victim, &ScheduledJob::job);
      REQUIRE(found != state.running.end());
      CHECK_FALSE(found->ends);
    }
  }
}

TEST_CASE("workers are chosen on as few hosts as can be", "[scheduling]") {
  const std::vector<std::string> hosts = {"a", "b", "a", "c", "a", "b"};
  using Positions = std::vector<std::size_t>;
  CHECK(choose_workers(hosts, 1) == Positions{3});
  CHECK(choose_workers(hosts, 2) == Positions{1, 5});
  CHECK(choose_workers(hosts, 3) == Positions{0, 2, 4});
  CHECK(choose_workers(hosts, 4) == Positions{0, 2, 3, 4});
  CHECK(choose_workers(hosts, 6) == Positions{0, 1, 2, 3, 4, 5});
  CHECK(choose_workers(hosts, 0).empty());
}

TEST_CASE("workers are chosen in one rack, where one has enough", "[scheduling]") {
  using Positions = std::vector<std::size_t>;
  CHECK(rack_of("leaf2/node7") == "leaf2");
  CHECK(rack_of("node7").empty());
  // Host a alone has two; no host has three, and rack 2 has exactly three.
  const std::vector<std::string> hosts = {"1/a", "1/a", "1/b", "2/c", "1/b", "2/d", "2/c"};
  CHECK(choose_workers(hosts, 2) == Positions{0, 1});
  CHECK(choose_workers(hosts, 3) == Positions{3, 5, 6});
  CHECK(choose_workers(hosts, 4) == Positions{0, 1, 2, 4});
  // No rack has five: as few hosts as can be.
  CHECK(choose_workers(hosts, 5) == Positions{0, 1, 2, 4, 5});
}

TEST_CASE("a job grows by the nearest workers to those that it has", "[scheduling]") {
  using Positions = std::vector<std::size_t>;
  const std::vector<std::string> idle = {"2/x", "1/b", "1/a", "1/c", "1/c", "2/x"};
  CHECK(nearest_first(idle, {"1/a"}) == Positions{2, 3, 4, 1, 0, 5});
  CHECK(nearest_first(idle, {"2/y", "2/y"}) == Positions{0, 5, 3, 4, 1, 2});
  CHECK(nearest_first(idle, {}) == Positions{0, 1, 2, 3, 4, 5});
  // And so does the policy account for them: job 2 then finds what job 1 leaves.
  SchedulingState state{.waiting = {}, .running = {elastic(1, 1, 1, 2)}, .workers = two_hosts()};
  for (WorkerPlace& worker : state.workers.workers) worker.devices = 0;
  state.workers.workers[2].job = JobId(1);
  FreeWorkers free(state.workers, 0);
  CHECK(free.take({}, 1, JobId(1)) == Places{3});
  CHECK(free.take({}, 1, JobId(1)) == Places{0});
  CHECK(FreeWorkers(state.workers, 0).take({}, 2) == Places{0, 1});
}

TEST_CASE("a job shrinks to as few hosts as can be", "[scheduling]") {
  WorkerList list;
  for (const char* host : {"1/a", "1/b", "1/a", "2/c", "1/a", "1/b", "2/c"}) {
    WorkerPlace& place = list.workers.emplace_back();
    place.host = host;
    place.job = JobId(1);
  }
  list.memory = {WorkerList::kUnlimited};
  const auto leaving = [&list](std::uint32_t count) {
    return FreeWorkers(list, 0).release(JobId(1), {}, count, {});
  };
  // The rack with two of its workers first, then the host with two.
  CHECK(leaving(1) == Places{6});
  CHECK(leaving(4) == Places{6, 3, 5, 1});
  CHECK(leaving(5) == Places{6, 3, 5, 1, 4});
  // One that leaves already does not count.
  list.workers[6].leaves = true;
  CHECK(leaving(2) == Places{3, 5});
}

}  // namespace
}  // namespace taut
