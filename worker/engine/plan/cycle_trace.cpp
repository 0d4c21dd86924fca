#include "worker/engine/plan/cycle_trace.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "common/check.hpp"

namespace taut {
namespace {

// Not canonical on any current processor: accessing such an address faults, whatever is mapped.
constexpr std::uint64_t kVirtualBase = 1ULL << 62U;
constexpr unsigned kBufferShift = 40;

/// "product forward into conv1", from the first buffer other than workspace that the step writes.
std::string name_of(const TraceStep& step, const std::vector<VirtualBuffer>& buffers) {
  const auto written = std::ranges::find_if(step.accesses, [&](const Access& access) {
    return writes(access.mode) && buffers[access.buffer].kind != BufferKind::kWorkspace;
  });
  if (written == step.accesses.end()) return step.name;
  return fmt::format("{} into {}", step.name, buffers[written->buffer].name);
}

}  // namespace

std::byte* virtual_address(std::size_t buffer) {
  return reinterpret_cast<std::byte*>(kVirtualBase | std::uint64_t{buffer} << kBufferShift);
}

VirtualPlace place_of(const std::byte* address) {
  const auto number = reinterpret_cast<std::uintptr_t>(address);
  TAUT_CHECK((number & kVirtualBase) != 0, "an address that this backend did not allocate");
  return {(number & ~kVirtualBase) >> kBufferShift, number & (kMaxVirtualBytes - 1)};
}

std::vector<Access> accesses_of(const DeviceCall& call, const std::vector<VirtualBuffer>& buffers) {
  std::vector<Access> accesses;
  for (const Operand& operand : call.operands) {
    const VirtualPlace place = place_of(operand.address);
    TAUT_CHECK(place.buffer < buffers.size() &&
                   place.offset + operand.size.value() <= buffers[place.buffer].bytes.value(),
               "an operand outside of its buffer");
    AccessMode mode = operand.mode;
    const bool whole = operand.size == buffers[place.buffer].bytes;
    if (mode == AccessMode::kWrite && !whole) mode = AccessMode::kWritePart;
    const auto same = std::ranges::find(accesses, place.buffer, &Access::buffer);
    if (same == accesses.end()) {
      accesses.push_back({place.buffer, mode});
    } else if (same->mode != mode) {
      same->mode = AccessMode::kReadWrite;
    }
  }
  return accesses;
}

CycleTrace make_trace(const std::vector<TraceStep>& steps,
                      const std::vector<VirtualBuffer>& buffers) {
  CycleTrace cycle;
  cycle.numbers_of.assign(buffers.size(), CycleTrace::kNotUsed);
  for (const TraceStep& step : steps) {
    TraceStep& traced = cycle.trace.steps.emplace_back();
    traced.name = name_of(step, buffers);
    traced.on_compute = step.on_compute;
    for (Access access : step.accesses) {
      std::size_t& number = cycle.numbers_of[access.buffer];
      if (number == CycleTrace::kNotUsed) {
        number = cycle.buffer_of.size();
        cycle.buffer_of.push_back(access.buffer);
        const VirtualBuffer& buffer = buffers[access.buffer];
        const bool keeps_value =
            access.mode == AccessMode::kRead || access.mode == AccessMode::kReadWrite;
        if (!keeps_value) access.mode = AccessMode::kWrite;
        cycle.trace.buffers.push_back({buffer.name, buffer.bytes, buffer.kind,
                                       keeps_value ? Lifetime::kForever : Lifetime::kIteration});
      }
      traced.accesses.push_back({number, access.mode});
    }
  }
  return cycle;
}

}  // namespace taut
