#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "tests/twin/stream_queue.hpp"

namespace taut::twin {

/// What counts say of a task.
enum class TaskKind : std::uint8_t { kOther, kKernel, kLibrary, kToDevice, kToHost, kOnDevice };

/// What is queued: a copy, a kernel, a library's call, or nothing (what an event or a join of
/// streams waits for).
struct Task {
  std::string what;
  int device = 0;
  std::vector<Access> accesses{};
  std::function<void()> run{};
  std::function<bool()> may_run{};
  TaskKind kind = TaskKind::kOther;
  std::uint64_t amount = 0;  // a kernel's elements, a copy's bytes

  /// Which memory a kernel touches is seen when it touches it.
  [[nodiscard]] bool is_kernel() const { return kind == TaskKind::kKernel; }
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
