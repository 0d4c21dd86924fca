#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "worker/engine/plan/device_call.hpp"
#include "worker/engine/plan/memory_plan.hpp"

namespace taut {

/// A buffer that a planned backend has allocated. Its address is a number that only the backend can
/// map to memory: no processor can dereference it.
struct VirtualBuffer {
  std::string name;
  Bytes bytes;
  BufferKind kind = BufferKind::kActivation;
};

/// The place of a virtual address.
struct VirtualPlace {
  std::size_t buffer = 0;
  std::uint64_t offset = 0;
};

inline constexpr std::uint64_t kMaxVirtualBytes = 1ULL << 40U;  // of one buffer

[[nodiscard]] std::byte* virtual_address(std::size_t buffer);
[[nodiscard]] VirtualPlace place_of(const std::byte* address);

/// The distinct buffers of a call, by the backend's numbers.
[[nodiscard]] std::vector<Access> accesses_of(const DeviceCall& call,
                                              const std::vector<VirtualBuffer>& buffers);

/// A cycle's calls as a trace: only the buffers that it uses, with numbers of the trace, and steps
/// named for messages.
struct CycleTrace {
  AccessTrace trace;
  std::vector<std::size_t> buffer_of;   // from the trace's numbers to the backend's
  std::vector<std::size_t> numbers_of;  // the inverse; kNotUsed if the cycle does not use it

  static constexpr std::size_t kNotUsed = static_cast<std::size_t>(-1);
};

/// A buffer whose first use reads it keeps its value from one cycle to the next; any other's value
/// is needed only within the cycle. A first use that writes a part also starts a new value: the
/// other parts are written before the first read.
/// steps  as recorded: named by the calls, with the backend's numbers
[[nodiscard]] CycleTrace make_trace(const std::vector<TraceStep>& steps,
                                    const std::vector<VirtualBuffer>& buffers);

}  // namespace taut
