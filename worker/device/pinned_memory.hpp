#pragma once

#include <memory>
#include <mutex>
#include <unordered_map>

#include "common/net/buffer_pool.hpp"
#include "worker/engine/backend.hpp"

namespace taut::worker {

/// Pinned buffers for updates that are sent as bytes: a device copies from and to them without the
/// host. If no more memory can be pinned, uses plain memory, which is slower, and logs this once.
/// Thread    any
class PinnedMemory final : public BufferAllocator {
 public:
  /// device  outlives the last allocate(); buffers may be deallocated later
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

/// The memory for a job's updates; nullptr if the device's memory is the host's.
[[nodiscard]] std::shared_ptr<BufferAllocator> update_memory(Backend& device);

}  // namespace taut::worker
