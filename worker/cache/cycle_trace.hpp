#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "worker/backend/device_call.hpp"
#include "worker/cache/memory_plan.hpp"

namespace taut {

/// A buffer that a planned backend has given out. Its address is a number that only the backend turns
/// into memory: no processor can follow it.
struct VirtualBuffer {
  std::string name;
  Bytes bytes;
};

/// Where a virtual address lies.
struct VirtualPlace {
  std::size_t buffer = 0;
  std::uint64_t offset = 0;
};

inline constexpr std::uint64_t kMostVirtualBytes = 1ULL << 40U;  // of one buffer

[[nodiscard]] std::byte* virtual_address(std::size_t buffer);
[[nodiscard]] VirtualPlace place_of(const std::byte* address);

/// What one call does with one buffer.
struct BufferUse {
  std::size_t buffer = 0;
  OperandUse use = OperandUse::kRead;
  friend bool operator==(const BufferUse&, const BufferUse&) = default;
};

/// The buffers of a call, each once.
[[nodiscard]] std::vector<BufferUse> uses_of(const DeviceCall& call,
                                             const std::vector<VirtualBuffer>& buffers);

/// One call of a cycle.
struct CycleStep {
  std::string_view what;
  bool on_compute = true;  // else on a stream of its own: a copy that runs beside the rest
  std::vector<BufferUse> uses;
  friend bool operator==(const CycleStep&, const CycleStep&) = default;
};

/// A cycle's calls as the plan wants them.
struct CycleTrace {
  AccessTrace trace;
  std::vector<std::size_t> buffer_of;   // from the trace's numbers to the backend's
  std::vector<std::size_t> numbers_of;  // back; kNotUsed where the cycle does not touch it

  static constexpr std::size_t kNotUsed = static_cast<std::size_t>(-1);
};

/// A buffer whose first use reads it holds a value from one cycle to the next; of any other only the
/// cycle itself needs the value. A first use that writes a part begins a new value too: the other
/// parts follow before anybody reads.
[[nodiscard]] CycleTrace make_trace(const std::vector<CycleStep>& steps,
                                    const std::vector<VirtualBuffer>& buffers);

/// What a name says of a buffer: "parameter conv1.weight", "gradient of parameter conv1.weight",
/// "workspace of conv1"; what says nothing is an activation.
[[nodiscard]] BufferKind kind_of(std::string_view name);

}  // namespace taut
