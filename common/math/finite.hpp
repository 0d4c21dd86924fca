#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>

namespace taut::math {

/// Whether no value is infinite or NaN.
/// values  [n] float32 at any alignment
[[nodiscard]] inline bool all_finite(std::span<const std::byte> values) {
  constexpr std::uint32_t kExponent = 0x7f800000;
  constexpr std::size_t kBlock = 4096;  // without a branch, so that it is vectorized
  const std::size_t count = values.size() / sizeof(float);
  for (std::size_t begin = 0; begin < count; begin += kBlock) {
    std::uint32_t found = 0;
    for (std::size_t i = begin; i < std::min(count, begin + kBlock); ++i) {
      std::uint32_t bits = 0;
      std::memcpy(&bits, &values[i * sizeof(float)], sizeof(bits));
      found |= (bits & kExponent) == kExponent ? 1U : 0U;
    }
    if (found != 0) return false;
  }
  return true;
}
/// Overload for aligned values.
[[nodiscard]] inline bool all_finite(std::span<const float> values) {
  return all_finite(std::as_bytes(values));
}

}  // namespace taut::math
