#pragma once

#include <cstddef>

namespace taut::twin {

/// The running block's memory of one declaration: the same address for all its threads.
/// place  the declaration's own address
void* shared_memory(const void* place, std::size_t bytes, std::size_t alignment);

}  // namespace taut::twin
