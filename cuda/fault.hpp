#pragma once

#include <bit>
#include <cstdint>

namespace taut::cuda {

/// A fault that a kernel found in its data. A kernel cannot throw: it records the one at the lowest
/// position, continues as if the element did not exist, and the host checks when it waits for the
/// stream. All zeros: no fault.
struct Fault {
  enum Kind : std::int32_t { kNone = 0, kLabel = 1, kRow = 2, kOverflow = 3 };
  std::int32_t kind = kNone;  // of the first kernel that found one
  std::int32_t unused = 0;
  std::int64_t limit = 0;  // the value must be in [0, limit); for kOverflow, the largest number
  /// The position counted down, before the bits of the value: of two faults, that with the larger
  /// number is at the lower position, whichever was found first.
  unsigned long long first = 0;

  static constexpr std::int64_t kLastPosition = 0xFFFFFFFE;  // larger ones are stored as this one
  [[nodiscard]] std::int64_t position() const {
    return kLastPosition - static_cast<std::int64_t>(first >> 32U) + 1;
  }
  [[nodiscard]] float value() const {
    return std::bit_cast<float>(static_cast<std::uint32_t>(first));
  }
};

}  // namespace taut::cuda
