#pragma once

#include <cstddef>
#include <map>
#include <memory>
#include <mutex>
#include <span>

#include "common/net/memory_pinning.hpp"
#include "common/types.hpp"
#include "worker/engine/backend.hpp"

namespace taut::worker {

/// Pins servers' memory that is mapped into this process, for a device, up to a limit. Logs the
/// first part that is pinned, and the first that cannot be.
class PinnedPeers final : public MemoryPinning {
 public:
  /// device  outlives this
  PinnedPeers(Backend& device, Bytes limit) : device_(device), limit_(limit) {}

  bool pin(std::span<const std::byte> part) override;
  void unpin(std::span<const std::byte> part) noexcept override;
  bool covers(std::span<const std::byte> bytes) const override;

 private:
  Backend& device_;
  const Bytes limit_;
  mutable std::mutex mutex_;  // guards all below
  std::map<const std::byte*, std::size_t> parts_;
  std::size_t bytes_ = 0;
  bool has_said_ = false;
  bool has_failed_ = false;
};

/// Pins at most half of the machine's memory; nullptr if the device's memory is the host's.
/// device  outlives the result
[[nodiscard]] std::shared_ptr<MemoryPinning> peer_pinning(Backend& device);

}  // namespace taut::worker
