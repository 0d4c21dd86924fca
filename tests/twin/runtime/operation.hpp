#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "tests/twin/stream_queue.hpp"

namespace taut::twin {

/// What is queued: a copy, a kernel, a library's call, or nothing (what an event or a join of
/// streams waits for).
struct Task {
  std::string what;
  int device = 0;
  std::vector<Access> accesses{};
  std::function<void()> run{};
  std::function<bool()> may_run{};
  /// A kernel: which memory it touches is seen when it touches it.
  bool is_kernel = false;
};

/// A task in its order. Once done it holds on to nothing.
struct Operation {
  Task task;
  std::uint64_t number = 0;
  std::vector<std::shared_ptr<Operation>> after;
  bool is_done = false;
};
using Work = std::shared_ptr<Operation>;

}  // namespace taut::twin
