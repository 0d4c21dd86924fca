#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "common/net/shared_arena.hpp"
#include "worker/backend/backend.hpp"

namespace taut::worker {

/// The parts of an arena that a device copies from and to by itself: all of them or, from the first
/// one on that cannot be pinned, none. Buffers lie across the seams of parts, and a copy of memory
/// that is pinned in part may fail.
/// Thread    one at a time
class PinnedParts {
 public:
  /// device  outlives this
  explicit PinnedParts(Backend& device) : device_(device) {}
  /// Gives back what is pinned. REQUIRES: the arena's memory is still there.
  ~PinnedParts() { give_back(); }
  PinnedParts(const PinnedParts&) = delete;
  PinnedParts& operator=(const PinnedParts&) = delete;

  /// Pins one more part. Where the device cannot, it says so once, and copies are slower from then on.
  void add(std::span<std::byte> part);

 private:
  void give_back() noexcept;

  Backend& device_;
  std::vector<std::span<std::byte>> parts_;
  bool failed_ = false;
};

/// What pins an arena as it grows; nothing where the device's memory is the host's.
/// device  outlives the arena
[[nodiscard]] SharedArena::OnGrown pinning(Backend& device);

}  // namespace taut::worker
