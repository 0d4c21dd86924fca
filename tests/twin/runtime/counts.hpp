#pragma once

#include "tests/twin/counts.hpp"
#include "tests/twin/runtime/operation.hpp"

// REQUIRES, of all: the lock is held.
namespace taut::twin {

/// The counts, to be changed.
[[nodiscard]] WorkCounts& counted();
/// Adds a task that was queued.
void count(const Task& task);
/// Adds a wait of the calling thread.
void count_wait();
[[nodiscard]] bool counts_only();

}  // namespace taut::twin
