#include "worker/device/pinned_parts.hpp"

#include <memory>
#include <utility>

#include "common/log.hpp"

namespace taut::worker {

void PinnedParts::add(std::span<std::byte> part) {
  if (failed_) return;
  try {
    device_.pin_host(part);
  } catch (const DeviceError& failure) {
    failed_ = true;
    log::warn("some gradients leave the device through memory that is not pinned: {}",
              failure.what());
    return;
  }
  parts_.push_back(part);
}

void PinnedParts::give_back() noexcept {
  for (const std::span<std::byte> part : std::exchange(parts_, {})) device_.unpin_host(part);
}

SharedArena::OnGrown pinning(Backend& device) {
  if (device.shares_host_memory()) return {};
  return [parts = std::make_shared<PinnedParts>(device)](std::span<std::byte> part) {
    parts->add(part);
  };
}

}  // namespace taut::worker
