#pragma once

#include <cstddef>
#include <memory>
#include <span>

#include "common/net/shared_arena.hpp"
#include "common/result.hpp"

namespace taut {

/// Another process's arena, mapped read-only. What the other process writes there, or that it ends,
/// changes bytes and nothing else: the memory stays. Thread: any
class SharedView {
 public:
  /// Errors    not_found: no such memory here (another machine, or another container); io: it
  ///           cannot be mapped; mismatch: it is not the memory that the offer describes
  [[nodiscard]] static Result<std::shared_ptr<SharedView>> open(const SharedMemoryOffer& offer);
  ~SharedView();
  SharedView(const SharedView&) = delete;
  SharedView& operator=(const SharedView&) = delete;

  [[nodiscard]] std::span<const std::byte> bytes() const;

  /// Whether the process that made the memory still has it: false once its client was closed, or it
  /// ended.
  [[nodiscard]] bool owner_has_it() const;

 private:
  struct State;
  explicit SharedView(std::unique_ptr<State> state);

  std::unique_ptr<State> state_;
};

}  // namespace taut
