#pragma once

#include <memory>

#include "common/net/buffer_pool.hpp"

namespace taut::lab {

/// Large buffers straight from the system, which gets them back when they are freed. What many
/// workers free is interleaved with what they keep, so a heap would grow from clock to clock.
[[nodiscard]] std::shared_ptr<BufferAllocator> page_allocator();

}  // namespace taut::lab
