#include "worker/device/pinned_memory.hpp"

#include <utility>

#include "common/log.hpp"

namespace taut::worker {

void* PinnedMemory::allocate(std::size_t size) {
  try {
    HostBuffer block = device_.allocate_host(Bytes(size));
    void* const memory = block.as<std::byte>().data();
    std::scoped_lock lock(mutex_);
    blocks_.emplace(memory, std::move(block));
    return memory;
  } catch (const DeviceError& failure) {
    std::scoped_lock lock(mutex_);
    if (!std::exchange(has_warned_, true)) {
      log::warn("gradients leave the device through memory that is not pinned: {}", failure.what());
    }
  }
  return plain_->allocate(size);
}

void PinnedMemory::deallocate(void* memory, std::size_t size) noexcept {
  std::unique_lock lock(mutex_);
  // The device's driver may be slow: no other thread must wait for it here.
  const auto block = blocks_.extract(memory);
  lock.unlock();
  if (block.empty()) plain_->deallocate(memory, size);
}

std::shared_ptr<BufferAllocator> update_memory(Backend& device) {
  if (device.shares_host_memory()) return nullptr;
  return std::make_shared<PinnedMemory>(device);
}

}  // namespace taut::worker
