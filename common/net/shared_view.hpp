#pragma once

#include <cstddef>
#include <memory>
#include <span>

#include "common/net/memory_pinning.hpp"
#include "common/net/shared_arena.hpp"
#include "common/result.hpp"

namespace taut {

/// Another process's arena, mapped read-only. What the other process writes there, or that it ends,
/// changes bytes and nothing else: the memory stays. Thread: any
class SharedView {
 public:
  /// Errors    not_found: no such memory here (another machine, or another container); io: it
  ///           cannot be mapped; mismatch: it is not the memory that the offer describes
  /// pinning   of what pin() is called for; nullptr: nothing is
  /// pages     kStay: memory whose pages its owner can remove is a mismatch
  [[nodiscard]] static Result<std::shared_ptr<SharedView>> open(
      const SharedMemoryOffer& offer, std::shared_ptr<MemoryPinning> pinning = nullptr,
      ArenaPages pages = ArenaPages::kReturned);
  ~SharedView();
  SharedView(const SharedView&) = delete;
  SharedView& operator=(const SharedView&) = delete;

  [[nodiscard]] std::span<const std::byte> bytes() const;

  /// Whether bytes of this view may be read. Where pages stay they must have been written: reading
  /// others makes pages, which the system attributes to this process and keeps as long as the owner
  /// wants. Asks the system about what is not known to be written. Where pages may be returned, the
  /// owner is trusted: always true.
  [[nodiscard]] bool is_readable(std::uint64_t offset, std::uint64_t size);

  /// Pins the parts of this view in which these bytes are, until the view ends: its owner has
  /// written them, and lends them at present. Where it cannot, nothing more is pinned.
  void pin(std::span<const std::byte> bytes);

  /// Whether the process that made the memory still has it: false once its client was closed, or it
  /// ended.
  [[nodiscard]] bool owner_has_it() const;

 private:
  struct State;
  explicit SharedView(std::unique_ptr<State> state);

  std::unique_ptr<State> state_;
};

}  // namespace taut
