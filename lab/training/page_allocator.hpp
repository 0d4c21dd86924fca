#pragma once

#include <memory>

#include "common/net/buffer_pool.hpp"

namespace taut::lab {

/// Allocates large buffers directly from the system, which gets them back when they are freed.
/// Buffers that many workers free are interleaved with those that they keep, so a heap would grow
/// from clock to clock.
[[nodiscard]] std::shared_ptr<BufferAllocator> page_allocator();

}  // namespace taut::lab
