#pragma once

#include <cstddef>
#include <memory>
#include <span>

#include "common/net/memory_pinning.hpp"
#include "common/net/shared_arena.hpp"
#include "common/result.hpp"

namespace taut {

/// Another process's arena, mapped read-only. If the other process writes there or ends, bytes may
/// change, but the memory stays mapped. Thread: any
class SharedView {
 public:
  /// Errors    not_found: no such memory here (another machine, or another container); io: it
  ///           cannot be mapped; mismatch: it is not the memory that the offer describes
  /// pinning   used by pin(); nullptr: nothing is pinned
  /// pages     kStay: memory whose pages its owner can remove is a mismatch
  [[nodiscard]] static Result<std::shared_ptr<SharedView>> open(
      const SharedMemoryOffer& offer, std::shared_ptr<MemoryPinning> pinning = nullptr,
      ArenaPages pages = ArenaPages::kReturned);
  ~SharedView();
  SharedView(const SharedView&) = delete;
  SharedView& operator=(const SharedView&) = delete;

  [[nodiscard]] std::span<const std::byte> bytes() const;

  /// Whether these bytes may be read. Where pages stay, they must have been written: reading others
  /// allocates pages, which the system charges to this process and keeps as long as the owner does.
  /// Asks the system about bytes not known to be written. Where pages may be returned, always true:
  /// the owner is trusted.
  [[nodiscard]] bool is_readable(std::uint64_t offset, std::uint64_t size);

  /// Pins the parts of this view that contain these bytes, until the view ends. After a failure
  /// nothing more is pinned. REQUIRES: the owner has written the bytes and is lending them.
  void pin(std::span<const std::byte> bytes);

  /// Whether the process that made the memory still has it: false once its client is closed or the
  /// process has ended.
  [[nodiscard]] bool owner_has_it() const;

 private:
  struct State;
  explicit SharedView(std::unique_ptr<State> state);

  std::unique_ptr<State> state_;
};

}  // namespace taut
