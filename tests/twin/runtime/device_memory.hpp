#pragma once

#include <cstddef>
#include <optional>
#include <string>

#include "tests/twin/runtime/operation.hpp"

// Device memory: pages that the host can't touch, with red zones and a guard page, never given out
// twice while there are others. REQUIRES, of all: the lock is held.
namespace taut::twin {

inline constexpr int kMaxDevices = 8;
/// What newly allocated memory holds: no number, as a float, a double or a half.
inline constexpr int kPoison = 0xFF;

/// TAUTLINE_TWIN_MEMORY bytes for each device; 4 GiB where it is not set.
[[nodiscard]] std::size_t memory_of_device();
[[nodiscard]] std::size_t memory_left(int device);

/// nullptr: more than is left. who  for reports
[[nodiscard]] void* take_memory(int device, std::size_t bytes, std::string owner);
/// false: not the begin of a live allocation.
[[nodiscard]] bool give_memory_back(void* begin);

/// The device whose live memory holds an address.
[[nodiscard]] std::optional<int> device_of(const void* address);

/// Lets a task touch what it names; a kernel is given what it touches when it does.
void open_memory(const Task& task);
/// Looks at the red zones of what was open, and closes it.
void close_memory();

/// For reports: "64 bytes behind 4096 bytes of cudaMalloc #3"; empty: not a device's.
[[nodiscard]] std::string place_of(const void* address);

}  // namespace taut::twin
