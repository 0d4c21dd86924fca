#pragma once

#include <cstdint>

#include "worker/engine/plan/memory_plan.hpp"

namespace taut::test {

struct TraceSize {
  std::size_t buffers = 8;
  std::size_t steps = 12;
  std::size_t accesses_per_step = 3;
  std::uint64_t largest = 9;  // bytes
};

/// A trace of all lifetimes and access modes, a function of the seed.
[[nodiscard]] AccessTrace random_trace(std::uint64_t seed, const TraceSize& size);

/// The most bytes that one step uses, with sizes rounded up to the alignment.
[[nodiscard]] std::uint64_t min_budget(const AccessTrace& trace, std::uint64_t alignment);

}  // namespace taut::test
