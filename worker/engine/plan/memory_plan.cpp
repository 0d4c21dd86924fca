#include "worker/engine/plan/memory_plan.hpp"

#include <algorithm>
#include <numeric>
#include <utility>

#include "common/check.hpp"
#include "worker/engine/plan/bound.hpp"
#include "worker/engine/plan/choice.hpp"
#include "worker/engine/plan/pack.hpp"

namespace taut {
namespace {

/// Adds a residency's number to the steps at which something must be done with it.
void schedule(const Residency& at, std::size_t number, std::vector<StepPlan>& steps) {
  const std::size_t count = steps.size();
  if (at.fetched) {
    steps[at.begin % count].fetches.push_back(number);
    steps[at.first_use % count].needs.push_back(number);
  }
  if (at.written_back) steps[at.written % count].write_backs.push_back(number);
  steps[(at.end - 1) % count].releases.push_back(number);
}

void count_copies(const Residency& at, Bytes bytes, MemoryPlan& plan) {
  if (at.fetched) {
    plan.fetched_bytes = Bytes(plan.fetched_bytes.value() + bytes.value());
    ++(at.begin < at.first_use ? plan.hidden_copies : plan.exposed_copies);
  }
  if (at.written_back) {
    plan.written_back_bytes = Bytes(plan.written_back_bytes.value() + bytes.value());
    ++(at.written + 1 < at.end ? plan.hidden_copies : plan.exposed_copies);
  }
}

Bytes peak_of(const std::vector<plan::Stay>& stays, std::size_t steps) {
  std::vector<std::int64_t> change(2 * steps + 1, 0);
  for (const plan::Stay& stay : stays) {
    change[stay.residency.begin] += static_cast<std::int64_t>(stay.place_bytes);
    change[stay.residency.end] -= static_cast<std::int64_t>(stay.place_bytes);
  }
  std::vector<std::int64_t> live(steps, 0);
  std::int64_t now = 0;
  for (std::size_t step = 0; step < 2 * steps; ++step) {
    now += change[step];
    live[step % steps] += now;
  }
  return Bytes(live.empty() ? 0 : static_cast<std::uint64_t>(std::ranges::max(live)));
}

/// A choice that moves more may still be better if its stays can be packed without splits.
plan::Packing pack_best(const plan::Problem& problem, const std::vector<plan::Choice>& choices) {
  plan::Packing best = plan::pack(problem, choices.front());
  constexpr std::size_t kFew = 1000;
  if (problem.carries.size() > kFew) return best;
  for (const plan::Choice& choice : choices) {
    if (choice.moved_bytes() >= best.moved_bytes) continue;
    plan::Packing other = plan::pack(problem, choice);
    if (other.moved_bytes < best.moved_bytes) best = std::move(other);
  }
  return best;
}

}  // namespace

const char* to_string(BufferKind kind) {
  switch (kind) {
    case BufferKind::kParameter:
      return "parameter";
    case BufferKind::kGradient:
      return "gradient";
    case BufferKind::kActivation:
      return "activation";
    case BufferKind::kWorkspace:
      return "workspace";
  }
  return "buffer";
}

Bytes total_bytes(const AccessTrace& trace) {
  return Bytes(std::accumulate(
      trace.buffers.begin(), trace.buffers.end(), std::uint64_t{0},
      [](std::uint64_t sum, const PlanBuffer& buffer) { return sum + buffer.bytes.value(); }));
}

Result<MemoryPlan> plan_memory(const AccessTrace& trace, const PlanOptions& options) {
  TAUT_TRY(const plan::Problem problem, plan::make_problem(trace, options));
  const std::vector<plan::Choice> choices = plan::choose(problem);
  plan::Packing packing = pack_best(problem, choices);
  plan::hide_copies(problem, packing.stays);
  MemoryPlan plan;
  plan.steps.resize(problem.steps);
  plan.permanent.assign(trace.buffers.size(), false);
  plan.packing_bytes = Bytes(packing.moved_bytes - choices.front().moved_bytes());
  plan.peak_bytes = peak_of(packing.stays, problem.steps);
  std::uint64_t top = 0;
  for (const plan::Stay& stay : packing.stays) {
    const Residency& at = stay.residency;
    if (stay.permanent) {
      plan.permanent[at.buffer] = true;
    } else {
      schedule(at, plan.residencies.size(), plan.steps);
    }
    count_copies(at, trace.buffers[at.buffer].bytes, plan);
    plan.residencies.push_back(at);
    top = std::max(top, stay.top());
  }
  plan.arena_bytes = Bytes(top);
  TAUT_CHECK(plan.moved_bytes().value() == packing.moved_bytes, "copies were lost in the packing");
  return plan;
}

Result<Bytes> transfer_lower_bound(const AccessTrace& trace, const PlanOptions& options) {
  PlanOptions exact = options;
  exact.lookahead = 0;
  TAUT_TRY(const plan::Problem problem, plan::make_problem(trace, exact));
  const std::uint64_t reached = plan::choose(problem).front().moved_bytes();
  return Bytes(plan::dual_bound(problem, reached).bytes);
}

}  // namespace taut
