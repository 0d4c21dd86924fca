#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <vector>

#include "common/result.hpp"
#include "worker/engine/plan/memory_plan.hpp"

namespace taut::plan {

inline constexpr std::size_t kNone = std::numeric_limits<std::size_t>::max();

/// One step's use of a buffer.
struct Use {
  std::size_t step = 0;
  bool reads = false;
  bool writes = false;
  std::size_t carry = kNone;  // of its value to the next use, if that reads it
};

/// A value between one use and the next: either kept on the device, or dropped and fetched again.
struct Carry {
  std::size_t buffer = 0;
  std::size_t value = 0;  // into Problem::values
  std::size_t from = 0;   // the use before, below N
  std::size_t to = 0;     // the use after, at most from + N
  bool fetches = false;   // if dropped, it must be fetched; else it must only be written back
  // Steps in which only the carry needs the room: [hold_from, hold_to).
  std::size_t hold_from = 0;
  std::size_t hold_to = 0;

  [[nodiscard]] std::size_t hold_steps() const {
    return hold_to > hold_from ? hold_to - hold_from : 0;
  }
};

/// A value, from one write. Dropping the first of its carries also costs a write-back.
struct Value {
  bool dirty = false;  // the host has no copy
  std::vector<std::size_t> carries;
};

/// The trace as a selection problem: choose the carries to keep so that in each step those that
/// hold it fit in its room. Cyclic: step N is step 0.
/// Source    Bar-Noy et al., "A Unified Approach to Approximating Resource Allocation and
///           Scheduling", JACM 48(5), 2001: the bandwidth allocation problem
struct Problem {
  std::size_t steps = 0;
  std::size_t lookahead = 0;
  std::uint64_t budget = 0;                // rounded down to the alignment
  std::vector<std::uint64_t> bytes;        // by buffer: what a copy moves
  std::vector<std::uint64_t> place_bytes;  // by buffer: rounded up to the alignment
  std::vector<std::vector<Use>> uses;      // by buffer, by step
  std::vector<Carry> carries;
  std::vector<Value> values;
  std::vector<std::uint64_t> room;  // by step: the budget minus the step's own buffers
};

/// Errors    as plan_memory
[[nodiscard]] Result<Problem> make_problem(const AccessTrace& trace, const PlanOptions& options);

}  // namespace taut::plan
