#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>

// What was asked of the twin's devices, counted: what a device would have to do, whatever its
// speed.
namespace taut::twin {

struct WorkCounts {
  std::uint64_t kernels = 0;          // our own, with those of replayed graphs
  std::uint64_t kernel_elements = 0;  // that they name at their launch
  std::uint64_t library_calls = 0;    // cuBLASLt, cuDNN and NCCL, with those of replayed graphs
  std::uint64_t graph_launches = 0;
  std::uint64_t copies_to_device = 0;
  std::uint64_t bytes_to_device = 0;
  std::uint64_t copies_to_host = 0;
  std::uint64_t bytes_to_host = 0;
  std::uint64_t copies_on_device = 0;  // with fills of bytes
  std::uint64_t bytes_on_device = 0;
  std::uint64_t waits = 0;  // of the host: for a stream, an event or a device
};

/// Since the process began. Thread: any.
[[nodiscard]] WorkCounts work_counts();
/// The host's waits that the calling thread made.
[[nodiscard]] std::uint64_t waits_of_this_thread();
/// How often each kernel was launched since the process began, by its name. Thread: any.
[[nodiscard]] std::map<std::string, std::uint64_t> launches_by_name();
/// How often a call of the runtime or of a library was made. Thread: any.
[[nodiscard]] std::uint64_t calls_of(std::string_view call);

/// From now on kernels and libraries' calls are counted and not executed, and new device memory
/// holds zeros: nets of any size are counted in no time. REQUIRES: nothing is queued
void count_only(bool on);

}  // namespace taut::twin
