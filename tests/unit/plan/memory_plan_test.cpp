#include "worker/engine/plan/memory_plan.hpp"

#include <algorithm>
#include <cstdio>
#include <ctime>
#include <random>
#include <string>

#include "tests/support/catch.hpp"
#include "tests/unit/plan/oracle.hpp"
#include "tests/unit/plan/plan_player.hpp"
#include "tests/unit/plan/random_trace.hpp"

namespace taut {
namespace {

using test::check_addresses;
using test::min_budget;
using test::PlanPlayer;
using test::random_trace;
using test::TraceSize;

/// Plans, and plays four iterations. Returns what is wrong with the plan, or nothing.
std::string check_plan(const AccessTrace& trace, const PlanOptions& options, std::uint64_t seed) {
  const auto plan = plan_memory(trace, options);
  if (!plan) return plan.error().message;
  const MemoryPlan& found = plan.value();
  if (std::string wrong = check_addresses(trace, found, options); !wrong.empty()) return wrong;
  PlanPlayer player(trace, found, seed);
  const std::vector<bool> start = player.live();
  for (int iteration = 0; iteration < 4; ++iteration) {
    if (std::string wrong = player.run_iteration(); !wrong.empty()) return wrong;
    if (player.live() != start) return "the end of the iteration is not its start";
    if (player.moved_bytes() != found.moved_bytes().value()) return "other bytes moved than told";
    if (std::string wrong = player.check_survivors(); !wrong.empty()) return wrong;
  }
  return {};
}

TEST_CASE("plans of random traces lose no values and keep to the budget", "[memory_plan]") {
  for (std::uint64_t seed = 0; seed < 6000; ++seed) {
    std::mt19937_64 random(seed + 1'000'000);
    TraceSize size;
    size.buffers = 1 + random() % 14;
    size.steps = 1 + random() % 30;
    size.accesses_per_step = 1 + random() % 4;
    size.largest = 1 + random() % 40;
    const AccessTrace trace = random_trace(seed, size);
    PlanOptions options;
    options.alignment = Bytes(std::uint64_t{1} << (random() % 4));
    options.lookahead = random() % 4;
    const std::uint64_t least = min_budget(trace, options.alignment.value());
    options.budget = Bytes(least + random() % (1 + total_bytes(trace).value()));
    if (random() % 3 == 0) options.budget = Bytes(least);
    INFO("seed " << seed << ", budget " << options.budget.value() << " of least " << least);
    REQUIRE(check_plan(trace, options, seed) == "");
  }
}

TEST_CASE("small traces move as few bytes as brute force", "[memory_plan]") {
  int planned = 0;
  int swapping = 0;
  int cut = 0;
  for (std::uint64_t seed = 0; seed < 2000; ++seed) {
    std::mt19937_64 random(seed + 2'000'000);
    const TraceSize size{.buffers = 3 + random() % 2,
                         .steps = 3 + random() % 9,
                         .accesses_per_step = 2,
                         .largest = 5};
    const AccessTrace trace = random_trace(seed, size);
    PlanOptions options;
    options.alignment = Bytes(1);
    options.lookahead = 0;
    options.budget = Bytes(min_budget(trace, 1) + random() % 6);
    INFO("seed " << seed << ", budget " << options.budget.value());
    const MemoryPlan plan = plan_memory(trace, options).value();
    const std::uint64_t min_moved = test::fewest_bytes_moved(trace, options.budget.value());
    REQUIRE(transfer_lower_bound(trace, options).value().value() <= min_moved);
    // Brute force knows no addresses.
    REQUIRE(plan.moved_bytes().value() - plan.packing_bytes.value() == min_moved);
    ++planned;
    swapping += min_moved > 0 ? 1 : 0;
    cut += plan.moved_bytes().value() > min_moved ? 1 : 0;
  }
  std::printf(
      "%d small traces, %d of which must swap: %d move more than brute force, which knows "
      "no addresses\n",
      planned, swapping, cut);
  CHECK(swapping > planned / 4);
  CHECK(cut < planned / 20);
}

AccessTrace two_layers() {
  AccessTrace trace;
  trace.buffers = {{"w1", Bytes(40), BufferKind::kParameter, Lifetime::kForever},
                   {"w2", Bytes(60), BufferKind::kParameter, Lifetime::kForever},
                   {"x1", Bytes(20), BufferKind::kActivation, Lifetime::kIteration},
                   {"g2", Bytes(60), BufferKind::kGradient, Lifetime::kIteration}};
  trace.steps = {
      {"fc1", {{0, AccessMode::kRead}, {2, AccessMode::kWrite}}},
      {"fc2", {{1, AccessMode::kRead}, {2, AccessMode::kRead}}},
      {"fc2 backward", {{1, AccessMode::kRead}, {2, AccessMode::kRead}, {3, AccessMode::kWrite}}},
      {"fc2 update", {{1, AccessMode::kReadWrite}, {3, AccessMode::kRead}}}};
  return trace;
}

PlanOptions with_budget(std::uint64_t bytes, std::size_t lookahead = 1) {
  PlanOptions options;
  options.budget = Bytes(bytes);
  options.alignment = Bytes(1);
  options.lookahead = lookahead;
  return options;
}

TEST_CASE("with enough memory nothing moves and dead buffers share memory", "[memory_plan]") {
  AccessTrace trace = two_layers();
  trace.buffers.push_back({"scratch", Bytes(60), BufferKind::kWorkspace, Lifetime::kStep});
  trace.steps[0].accesses.push_back({4, AccessMode::kReadWrite});
  const MemoryPlan plan = plan_memory(trace, with_budget(1000)).value();
  CHECK(plan.moved_bytes().value() == 0);
  CHECK(plan.permanent == std::vector<bool>{true, true, false, false, false});
  CHECK(total_bytes(trace).value() == 240);
  CHECK(plan.arena_bytes.value() == 180);
}

TEST_CASE("a clean parameter is evicted rather than a written one", "[memory_plan]") {
  // 160 bytes: w2 stays, for it would have to be written back; w1 is fetched for its only use.
  const MemoryPlan plan = plan_memory(two_layers(), with_budget(160, 0)).value();
  CHECK(plan.permanent[1]);
  CHECK_FALSE(plan.permanent[0]);
  CHECK(plan.fetched_bytes.value() == 40);
  CHECK(plan.written_back_bytes.value() == 0);
}

TEST_CASE("a fetch runs in parallel with the previous step if there is memory", "[memory_plan]") {
  AccessTrace trace = two_layers();
  trace.buffers.push_back({"scratch", Bytes(40), BufferKind::kWorkspace, Lifetime::kStep});
  trace.steps[2].accesses.push_back({4, AccessMode::kWrite});
  // fc2 backward fills 180 bytes. fc2 update after it holds 120, so w1 arrives there, in the
  // scratch's place, for the next iteration's first step.
  const MemoryPlan plan = plan_memory(trace, with_budget(180)).value();
  CHECK(plan.fetched_bytes.value() == 40);
  CHECK(plan.hidden_copies == 1);
  CHECK(plan.exposed_copies == 0);
  CHECK(plan.steps[3].fetches.size() == 1);
  CHECK(plan.steps[0].needs == plan.steps[3].fetches);
}

TEST_CASE("a copy runs next to as many steps as memory is free for", "[memory_plan]") {
  // 80 bytes: w has no room next to step 1's scratch, and then nothing else is in its place.
  AccessTrace trace;
  trace.buffers = {{"w", Bytes(40), BufferKind::kParameter, Lifetime::kForever},
                   {"x", Bytes(10), BufferKind::kParameter, Lifetime::kForever},
                   {"scratch", Bytes(60), BufferKind::kWorkspace, Lifetime::kStep}};
  trace.steps = {{"use", {{0, AccessMode::kReadWrite}, {1, AccessMode::kRead}}},
                 {"large", {{1, AccessMode::kRead}, {2, AccessMode::kWrite}}}};
  for (int i = 0; i < 4; ++i) trace.steps.push_back({"small", {{1, AccessMode::kRead}}});
  const MemoryPlan plan = plan_memory(trace, with_budget(80)).value();
  CHECK(plan.moved_bytes().value() == 80);
  const auto fetched = std::ranges::find_if(plan.residencies, &Residency::fetched);
  REQUIRE(fetched != plan.residencies.end());
  CHECK(fetched->buffer == 0);
  CHECK(fetched->first_use - fetched->begin == 4);
  CHECK(plan.steps[2].fetches.size() == 1);
  CHECK(plan.steps[0].needs == plan.steps[2].fetches);
}

TEST_CASE("a fetch waits for its own step where there is no room before", "[memory_plan]") {
  AccessTrace trace = two_layers();
  trace.buffers.push_back({"scratch", Bytes(60), BufferKind::kWorkspace, Lifetime::kStep});
  trace.steps[3].accesses.push_back({4, AccessMode::kWrite});
  const MemoryPlan plan = plan_memory(trace, with_budget(180)).value();
  CHECK(plan.fetched_bytes.value() == 40);
  CHECK(plan.hidden_copies == 0);
  CHECK(plan.exposed_copies == 1);
  CHECK(plan.steps[0].needs == plan.steps[0].fetches);
}

TEST_CASE("a budget that cannot work is refused with step, tensor and bytes", "[memory_plan]") {
  const auto plan = plan_memory(two_layers(), with_budget(139));
  REQUIRE_FALSE(plan.has_value());
  CHECK(plan.error().message ==
        "memory plan: step 'fc2 backward' needs 140 bytes at once, device_memory_budget is 139 "
        "bytes; its largest tensor is parameter 'w2' with 60 bytes: raise the budget or lower the "
        "batch size");
  CHECK(check_plan(two_layers(), with_budget(140), 1) == "");
}

TEST_CASE("a trace that contradicts itself is refused", "[memory_plan]") {
  AccessTrace unwritten = two_layers();
  unwritten.steps.erase(unwritten.steps.begin());
  const auto plan = plan_memory(unwritten, with_budget(1000));
  REQUIRE_FALSE(plan.has_value());
  CHECK(plan.error().message ==
        "memory plan: step 'fc2' reads activation 'x1' before any step wrote it");
  AccessTrace stranger = two_layers();
  stranger.steps[1].accesses.push_back({9, AccessMode::kRead});
  CHECK(plan_memory(stranger, with_budget(1000)).error().message ==
        "memory plan: step 'fc2' names buffer 9, the trace has 4");
}

TEST_CASE("an empty trace and unused buffers take no memory", "[memory_plan]") {
  CHECK(plan_memory({}, with_budget(0)).value().arena_bytes.value() == 0);
  AccessTrace idle = two_layers();
  idle.steps.clear();
  CHECK(plan_memory(idle, with_budget(0)).value().residencies.empty());
}

TEST_CASE("sizes near the end of the number range are refused, not wrapped", "[memory_plan]") {
  AccessTrace trace = two_layers();
  trace.buffers[0].bytes = Bytes(~std::uint64_t{0} - 3);
  PlanOptions options = with_budget(1 << 20);
  options.alignment = Bytes(256);
  CHECK_FALSE(plan_memory(trace, options).has_value());
}

TEST_CASE("the same trace gives the same plan", "[memory_plan]") {
  const AccessTrace trace = random_trace(7, {.buffers = 20, .steps = 60});
  const auto budget = min_budget(trace, 1) + 5;
  const MemoryPlan a = plan_memory(trace, with_budget(budget)).value();
  const MemoryPlan b = plan_memory(trace, with_budget(budget)).value();
  REQUIRE(a.residencies.size() == b.residencies.size());
  for (std::size_t i = 0; i < a.residencies.size(); ++i) {
    CHECK(a.residencies[i].offset == b.residencies[i].offset);
    CHECK(a.residencies[i].begin == b.residencies[i].begin);
  }
}

TEST_CASE("ten thousand accesses are planned in about a second", "[memory_plan]") {
  const AccessTrace trace =
      random_trace(11, {.buffers = 1500, .steps = 5000, .accesses_per_step = 5, .largest = 4096});
  std::size_t accesses = 0;
  for (const TraceStep& step : trace.steps) accesses += step.accesses.size();
  REQUIRE(accesses >= 10'000);
  for (const std::uint64_t share : {2U, 4U, 8U, 64U}) {
    const std::clock_t start = std::clock();  // of the processor: other work does not count
    const MemoryPlan plan =
        plan_memory(trace, with_budget(total_bytes(trace).value() / share)).value();
    const double took = static_cast<double>(std::clock() - start) / CLOCKS_PER_SEC;
    std::printf("%zu accesses, budget 1/%d: planned in %.3f s, %zu residencies\n", accesses,
                static_cast<int>(share), took, plan.residencies.size());
    CHECK(took < 20.0);  // the stated second, with room for sanitizers
  }
}

}  // namespace
}  // namespace taut
