#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "common/net/shared_arena.hpp"
#include "worker/engine/backend.hpp"

namespace taut::worker {

/// The pinned parts of an arena. Once a part cannot be pinned, no later one is. No buffer extends
/// over two parts, so each copy is either from pinned memory or from memory that is not pinned.
/// Thread    one at a time
class PinnedParts {
 public:
  /// device  outlives this
  explicit PinnedParts(Backend& device) : device_(device) {}
  /// Unpins all parts. REQUIRES: the arena's memory still exists.
  ~PinnedParts() { give_back(); }
  PinnedParts(const PinnedParts&) = delete;
  PinnedParts& operator=(const PinnedParts&) = delete;

  /// Pins one more part. A failure is logged once, and copies are slower from then on.
  void add(std::span<std::byte> part);

 private:
  void give_back() noexcept;

  Backend& device_;
  std::vector<std::span<std::byte>> parts_;
  bool failed_ = false;
};

/// Pins an arena as it grows; does nothing if the device's memory is the host's.
/// device  outlives the arena
[[nodiscard]] SharedArena::OnGrown pinning(Backend& device);

}  // namespace taut::worker
