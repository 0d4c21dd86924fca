#pragma once

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <span>

namespace taut::math {

/// Whether no value is infinite or no number.
[[nodiscard]] inline bool all_finite(std::span<const float> values) {
  constexpr std::uint32_t kExponent = 0x7f800000;
  constexpr std::size_t kBlock = 4096;  // without a branch, so that it is vectorized
  for (std::size_t begin = 0; begin < values.size(); begin += kBlock) {
    std::uint32_t found = 0;
    const auto block = values.subspan(begin, std::min(kBlock, values.size() - begin));
    for (const float value : block) {
      found |= (std::bit_cast<std::uint32_t>(value) & kExponent) == kExponent ? 1U : 0U;
    }
    if (found != 0) return false;
  }
  return true;
}

}  // namespace taut::math
