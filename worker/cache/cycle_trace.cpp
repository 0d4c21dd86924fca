#include "worker/cache/cycle_trace.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "common/check.hpp"

namespace taut {
namespace {

// Not canonical on any processor of today: following such an address faults, whatever is mapped.
constexpr std::uint64_t kVirtualBase = 1ULL << 62U;
constexpr unsigned kBufferShift = 40;

AccessMode mode_of(OperandUse use) {
  switch (use) {
    case OperandUse::kRead:
      return AccessMode::kRead;
    case OperandUse::kWrite:
      return AccessMode::kWrite;
    case OperandUse::kReadWrite:
    case OperandUse::kWritePart:
      return AccessMode::kReadWrite;
  }
  return AccessMode::kReadWrite;
}

/// "product forward into conv1", from the first buffer that the step writes for others.
std::string name_of(const CycleStep& step, const std::vector<VirtualBuffer>& buffers) {
  const auto written = std::ranges::find_if(step.uses, [&](const BufferUse& use) {
    return use.use != OperandUse::kRead &&
           kind_of(buffers[use.buffer].name) != BufferKind::kWorkspace;
  });
  if (written == step.uses.end()) return std::string(step.what);
  return fmt::format("{} into {}", step.what, buffers[written->buffer].name);
}

}  // namespace

std::byte* virtual_address(std::size_t buffer) {
  return reinterpret_cast<std::byte*>(kVirtualBase | std::uint64_t{buffer} << kBufferShift);
}

VirtualPlace place_of(const std::byte* address) {
  const auto number = reinterpret_cast<std::uintptr_t>(address);
  TAUT_CHECK((number & kVirtualBase) != 0, "an address that this backend did not give out");
  return {(number & ~kVirtualBase) >> kBufferShift, number & (kMostVirtualBytes - 1)};
}

std::vector<BufferUse> uses_of(const DeviceCall& call, const std::vector<VirtualBuffer>& buffers) {
  std::vector<BufferUse> uses;
  for (const Operand& operand : call.operands) {
    const VirtualPlace place = place_of(operand.address);
    TAUT_CHECK(place.buffer < buffers.size() &&
                   place.offset + operand.size.value() <= buffers[place.buffer].bytes.value(),
               "an operand outside of its buffer");
    OperandUse use = operand.use;
    const bool whole = operand.size == buffers[place.buffer].bytes;
    if (use == OperandUse::kWrite && !whole) use = OperandUse::kWritePart;
    const auto same = std::ranges::find(uses, place.buffer, &BufferUse::buffer);
    if (same == uses.end()) {
      uses.push_back({place.buffer, use});
    } else if (same->use != use) {
      same->use = OperandUse::kReadWrite;
    }
  }
  return uses;
}

CycleTrace make_trace(const std::vector<CycleStep>& steps,
                      const std::vector<VirtualBuffer>& buffers) {
  CycleTrace made;
  made.numbers_of.assign(buffers.size(), CycleTrace::kNotUsed);
  for (const CycleStep& step : steps) {
    TraceStep& traced = made.trace.steps.emplace_back();
    traced.name = name_of(step, buffers);
    for (const BufferUse& use : step.uses) {
      std::size_t& number = made.numbers_of[use.buffer];
      AccessMode mode = mode_of(use.use);
      if (number == CycleTrace::kNotUsed) {
        number = made.buffer_of.size();
        made.buffer_of.push_back(use.buffer);
        const VirtualBuffer& buffer = buffers[use.buffer];
        const bool lives_on = use.use == OperandUse::kRead || use.use == OperandUse::kReadWrite;
        if (!lives_on) mode = AccessMode::kWrite;
        made.trace.buffers.push_back({buffer.name, buffer.bytes, kind_of(buffer.name),
                                      lives_on ? Lifetime::kForever : Lifetime::kIteration});
      }
      traced.accesses.push_back({number, mode});
    }
  }
  return made;
}

BufferKind kind_of(std::string_view name) {
  if (name.starts_with("parameter ")) return BufferKind::kParameter;
  if (name.starts_with("gradient ")) return BufferKind::kGradient;
  if (name.starts_with("workspace ")) return BufferKind::kWorkspace;
  if (name.starts_with("index ")) return BufferKind::kIndex;
  return BufferKind::kActivation;
}

}  // namespace taut
