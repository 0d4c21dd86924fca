#include "worker/engine/plan/carries.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <bit>

#include "common/check.hpp"

namespace taut::plan {
namespace {

Result<void> add_use(const AccessTrace& trace, std::size_t step, const Access& access,
                     Problem& problem) {
  if (access.buffer >= trace.buffers.size()) {
    return invalid(fmt::format("memory plan: step '{}' names buffer {}, the trace has {}",
                               trace.steps[step].name, access.buffer, trace.buffers.size()));
  }
  auto& uses = problem.uses[access.buffer];
  if (uses.empty() || uses.back().step != step) uses.push_back({.step = step});
  uses.back().reads |= needs_old(access.mode);
  uses.back().writes |= writes(access.mode);
  return ok();
}

/// Names the step that needs most memory: a budget for that one suffices for all.
Result<void> refuse_overflow(const AccessTrace& trace, const Problem& problem, Bytes budget) {
  std::vector<std::uint64_t> needs(problem.steps, 0);
  for (std::size_t buffer = 0; buffer < problem.uses.size(); ++buffer) {
    for (const Use& use : problem.uses[buffer]) needs[use.step] += problem.place_bytes[buffer];
  }
  const auto most = std::ranges::max_element(needs);
  const auto step = static_cast<std::size_t>(most - needs.begin());
  std::size_t largest = trace.steps[step].accesses.front().buffer;
  for (const Access& access : trace.steps[step].accesses) {
    if (problem.bytes[access.buffer] > problem.bytes[largest]) largest = access.buffer;
  }
  const PlanBuffer& tensor = trace.buffers[largest];
  return invalid(
      fmt::format("memory plan: step '{}' needs {} bytes at once, device_memory_budget is {} "
                  "bytes; its largest "
                  "tensor is {} '{}' with {} bytes: raise the budget or lower the batch size",
                  trace.steps[step].name, *most, budget.value(), to_string(tensor.kind),
                  tensor.name, tensor.bytes.value()));
}

/// Sets the room that each step has left after the buffers that it uses.
Result<void> set_room(const AccessTrace& trace, Bytes budget, Problem& problem) {
  problem.room.assign(problem.steps, problem.budget);
  for (std::size_t buffer = 0; buffer < problem.uses.size(); ++buffer) {
    for (const Use& use : problem.uses[buffer]) {
      if (problem.place_bytes[buffer] > problem.room[use.step]) {
        return refuse_overflow(trace, problem, budget);
      }
      problem.room[use.step] -= problem.place_bytes[buffer];
    }
  }
  return ok();
}

void add_carry(Problem& problem, std::size_t buffer, std::size_t use, bool fetches) {
  auto& uses = problem.uses[buffer];
  const std::size_t from = uses[use].step;
  const bool wraps = use + 1 == uses.size();
  const std::size_t to = wraps ? uses.front().step + problem.steps : uses[use + 1].step;
  uses[use].carry = problem.carries.size();
  problem.values.back().carries.push_back(problem.carries.size());
  problem.carries.push_back({.buffer = buffer,
                             .value = problem.values.size() - 1,
                             .from = from,
                             .to = to,
                             .fetches = fetches,
                             .hold_from = from + 1,
                             .hold_to = to});
}

/// Adds values that must be in host memory or on the device when an iteration ends. The walk around
/// the cycle starts at a write, so that each value's carries are visited in order.
void carry_forever(Problem& problem, std::size_t buffer) {
  const auto& uses = problem.uses[buffer];
  const auto writer = std::ranges::find_if(uses, &Use::writes);
  const auto start = writer == uses.end() ? 0 : static_cast<std::size_t>(writer - uses.begin());
  problem.values.push_back({.dirty = writer != uses.end(), .carries = {}});
  for (std::size_t i = 0; i < uses.size(); ++i) {
    const std::size_t use = (start + i) % uses.size();
    if (i > 0 && uses[use].writes) problem.values.push_back({.dirty = true, .carries = {}});
    const bool next_reads = uses[(use + 1) % uses.size()].reads;
    if (next_reads || use + 1 == uses.size()) add_carry(problem, buffer, use, next_reads);
  }
}

Result<void> carry_within(const AccessTrace& trace, Problem& problem, std::size_t buffer) {
  const auto& uses = problem.uses[buffer];
  if (uses.front().reads) {
    return invalid(fmt::format("memory plan: step '{}' reads {} '{}' before any step wrote it",
                               trace.steps[uses.front().step].name,
                               to_string(trace.buffers[buffer].kind), trace.buffers[buffer].name));
  }
  for (std::size_t use = 0; use < uses.size(); ++use) {
    if (uses[use].writes) problem.values.push_back({.dirty = true, .carries = {}});
    if (use + 1 < uses.size() && uses[use + 1].reads) add_carry(problem, buffer, use, true);
  }
  return ok();
}

/// Takes one more step next to a carry's end for its copy, if the step has room.
bool reserve(Problem& problem, const Carry& carry, std::size_t step) {
  std::uint64_t& room = problem.room[step % problem.steps];
  if (carry.hold_steps() == 0 || room < problem.place_bytes[carry.buffer]) return false;
  room -= problem.place_bytes[carry.buffer];
  return true;
}

/// Reserves, where there is room, up to `lookahead` steps for each copy to overlap the compute.
void reserve_copies(Problem& problem) {
  for (std::size_t distance = 1; distance <= problem.lookahead; ++distance) {
    for (Carry& carry : problem.carries) {
      const bool unbroken = carry.hold_to == carry.to - (distance - 1);
      if (carry.fetches && unbroken && reserve(problem, carry, carry.hold_to - 1)) --carry.hold_to;
    }
    for (const Value& value : problem.values) {
      if (!value.dirty || value.carries.empty()) continue;
      Carry& carry = problem.carries[value.carries.front()];
      const bool unbroken = carry.hold_from == carry.from + distance;
      if (unbroken && reserve(problem, carry, carry.hold_from)) ++carry.hold_from;
    }
  }
}

}  // namespace

Result<Problem> make_problem(const AccessTrace& trace, const PlanOptions& options) {
  const std::uint64_t alignment = options.alignment.value();
  TAUT_CHECK(std::has_single_bit(alignment), "the alignment is not a power of two");
  Problem problem;
  problem.steps = trace.steps.size();
  problem.lookahead = options.lookahead;
  problem.budget = options.budget.value() & ~(alignment - 1);
  problem.uses.resize(trace.buffers.size());
  for (const PlanBuffer& buffer : trace.buffers) {
    const std::uint64_t bytes = buffer.bytes.value();
    problem.bytes.push_back(bytes);
    const std::uint64_t padded = bytes + (alignment - 1);
    problem.place_bytes.push_back((padded < bytes ? ~std::uint64_t{0} : padded) & ~(alignment - 1));
  }
  for (std::size_t step = 0; step < trace.steps.size(); ++step) {
    for (const Access& access : trace.steps[step].accesses) {
      TAUT_TRY(add_use(trace, step, access, problem));
    }
  }
  TAUT_TRY(set_room(trace, options.budget, problem));
  for (std::size_t buffer = 0; buffer < trace.buffers.size(); ++buffer) {
    if (problem.uses[buffer].empty()) continue;
    const Lifetime lifetime = trace.buffers[buffer].lifetime;
    if (lifetime == Lifetime::kForever) carry_forever(problem, buffer);
    if (lifetime == Lifetime::kIteration) {
      TAUT_TRY(carry_within(trace, problem, buffer));
    }
  }
  reserve_copies(problem);
  return problem;
}

}  // namespace taut::plan
