#include "worker/device/pinned_peers.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <string>
#include <utility>

#include "common/log.hpp"
#include "common/system/memory.hpp"

namespace taut::worker {

bool PinnedPeers::pin(std::span<const std::byte> part) {
  const std::scoped_lock lock(mutex_);
  std::string why;
  if (bytes_ + part.size() > limit_.value()) {
    why = fmt::format("{} bytes are pinned, and no more than {} may be", bytes_, limit_.value());
  } else {
    try {
      device_.pin_host_to_read(part);
      parts_[part.data()] = part.size();
      bytes_ += part.size();
      if (!std::exchange(has_said_, true)) {
        log::info("the device reads values in servers' memory on this machine");
      }
      return true;
    } catch (const DeviceError& failure) {
      why = failure.what();
    }
  }
  if (!std::exchange(has_failed_, true)) {
    log::info("the host copies values from servers' memory, which the device cannot read: {}", why);
  }
  return false;
}

void PinnedPeers::unpin(std::span<const std::byte> part) noexcept {
  {
    const std::scoped_lock lock(mutex_);
    bytes_ -= part.size();
    parts_.erase(part.data());
  }
  device_.unpin_host(part);
}

bool PinnedPeers::covers(std::span<const std::byte> bytes) const {
  const std::scoped_lock lock(mutex_);
  const std::byte* at = bytes.data();
  const std::byte* const end = at + bytes.size();
  auto part = parts_.upper_bound(at);
  if (part == parts_.begin()) return false;
  for (--part; part != parts_.end() && part->first <= at; ++part) {
    at = std::max(at, part->first + part->second);
    if (at >= end) return true;
  }
  return false;
}

std::shared_ptr<MemoryPinning> peer_pinning(Backend& device) {
  if (device.shares_host_memory()) return nullptr;
  return std::make_shared<PinnedPeers>(device, Bytes(machine_memory().value() / 2));
}

}  // namespace taut::worker
