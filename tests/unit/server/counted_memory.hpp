#pragma once

#include <algorithm>
#include <cstddef>

#include "common/net/buffer_pool.hpp"

namespace taut::test {

/// Counts the bytes that are allocated, by one thread.
class CountedMemory final : public BufferAllocator {
 public:
  void* allocate(std::size_t size) override {
    used += size;
    peak = std::max(peak, used);
    return host_allocator()->allocate(size);
  }
  void deallocate(void* memory, std::size_t size) noexcept override {
    used -= size;
    host_allocator()->deallocate(memory, size);
  }

  std::size_t used = 0;
  std::size_t peak = 0;
};

}  // namespace taut::test
