#pragma once

#include <map>
#include <memory_resource>
#include <mutex>

#include "worker/engine/backend.hpp"

namespace taut::worker {

/// A backend's host memory for a loader's batches: the device copies from it at full speed, without
/// the host.
/// Errors    DeviceError: the system has no more such memory
/// Thread    any
class BatchMemory final : public std::pmr::memory_resource {
 public:
  /// backend  outlives this
  explicit BatchMemory(Backend& backend) : backend_(backend) {}

 private:
  void* do_allocate(std::size_t bytes, std::size_t alignment) override;
  void do_deallocate(void* address, std::size_t bytes, std::size_t alignment) override;
  [[nodiscard]] bool do_is_equal(const std::pmr::memory_resource& other) const noexcept override {
    return this == &other;
  }

  Backend& backend_;
  std::mutex mutex_;
  std::map<const void*, HostBuffer> blocks_;  // guarded by mutex_
};

}  // namespace taut::worker
