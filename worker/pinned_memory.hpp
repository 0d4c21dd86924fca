#pragma once

#include <memory>
#include <mutex>
#include <unordered_map>

#include "common/net/buffer_pool.hpp"
#include "worker/backend/backend.hpp"

namespace taut::worker {

/// Buffers that a device copies from and to by itself, while the host goes on: for updates that leave
/// as bytes. Where the device gives no more, plain memory, which is slower; it says so once.
/// Thread    any
class PinnedMemory final : public BufferAllocator {
 public:
  /// device  outlives the last allocate(); what was given out may be given back later
  explicit PinnedMemory(Backend& device) : device_(device) {}

  [[nodiscard]] void* allocate(std::size_t size) override;
  void deallocate(void* memory, std::size_t size) noexcept override;

 private:
  Backend& device_;
  const std::shared_ptr<BufferAllocator> plain_ = host_allocator();
  std::mutex mutex_;  // guards all below
  std::unordered_map<void*, HostBuffer> blocks_;
  bool has_warned_ = false;
};

/// The memory for a job's updates; null where the device's memory is the host's.
[[nodiscard]] std::shared_ptr<BufferAllocator> update_memory(Backend& device);

}  // namespace taut::worker
