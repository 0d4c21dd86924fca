#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

// How many bytes of some memory kernels read and write, seen by the compiler's calls at each
// access.
namespace taut::twin {

/// Counts accesses of this memory from now on, from 0. REQUIRES: nothing is queued
void watch(std::span<const std::byte> memory);
/// Bytes read and bytes written, together. REQUIRES: nothing is queued
[[nodiscard]] std::uint64_t watched_bytes();

}  // namespace taut::twin
