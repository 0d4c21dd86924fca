#pragma once

#include <cmath>
#include <cstdint>
#include <cstring>

#include "common/math/host_device.hpp"

namespace taut::math {

TAUT_HD inline std::uint32_t float_bits(float value) {
  std::uint32_t bits = 0;
  std::memcpy(&bits, &value, sizeof bits);
  return bits;
}

TAUT_HD inline float bits_float(std::uint32_t bits) {
  float value = 0;
  std::memcpy(&value, &bits, sizeof value);
  return value;
}

/// The nearest IEEE 754 binary16 number, of two the even one. What is finite and beyond 65,504
/// becomes 65,504, so that no finite gradient turns into an infinite one.
TAUT_HD inline std::uint16_t to_float16(float value) {
  constexpr std::uint32_t kInfinity = 0x7f800000;
  constexpr std::uint32_t kLargest = 0x477fe000;    // 65,504
  constexpr std::uint32_t kNormal = 0x38800000;     // 2^-14
  constexpr std::uint32_t kExponents = 0x38000000;  // the distance of the two biases, 112
  constexpr std::uint32_t kHalf = 0x3f000000;       // 0.5, whose last place is 2^-24
  const std::uint32_t bits = float_bits(value);
  const std::uint32_t sign = bits >> 16U & 0x8000U;
  const std::uint32_t given = bits & 0x7fffffffU;
  const std::uint32_t magnitude = given > kLargest ? kLargest : given;
  const std::uint32_t normal = (magnitude - kExponents + 0xfffU + (magnitude >> 13U & 1U)) >> 13U;
  // The addition rounds to multiples of 2^-24, as subnormal numbers have them.
  const std::uint32_t subnormal = float_bits(bits_float(magnitude) + 0.5F) - kHalf;
  const std::uint32_t finite = magnitude < kNormal ? subnormal : normal;
  const std::uint32_t special = given > kInfinity ? 0x7e00U : 0x7c00U;
  return static_cast<std::uint16_t>(sign | (given < kInfinity ? finite : special));
}

/// The value of a binary16 number; without a branch, so that a loop of it is vectorized.
TAUT_HD inline float from_float16(std::uint16_t half) {
  const std::uint32_t sign = static_cast<std::uint32_t>(half & 0x8000U) << 16U;
  // Exact, subnormal numbers included.
  const float magnitude = bits_float(static_cast<std::uint32_t>(half & 0x7fffU) << 13U) * 0x1p112F;
  const std::uint32_t special = magnitude >= 65536.0F ? 0x7f800000U : 0U;
  return bits_float(float_bits(magnitude) | special | sign);
}

/// The nearest bfloat16 number, of two the even one. What is finite stays finite.
TAUT_HD inline std::uint16_t to_bfloat16(float value) {
  constexpr std::uint32_t kInfinity = 0x7f800000;
  constexpr std::uint32_t kLargest = 0x7f7f0000;
  const std::uint32_t bits = float_bits(value);
  const std::uint32_t given = bits & 0x7fffffffU;
  const std::uint32_t magnitude = given > kLargest ? kLargest : given;
  const std::uint32_t finite = magnitude + 0x7fffU + (magnitude >> 16U & 1U);
  const std::uint32_t special = given > kInfinity ? 0x7fc00000U : kInfinity;
  return static_cast<std::uint16_t>(
      ((bits & 0x80000000U) | (given < kInfinity ? finite : special)) >> 16U);
}

TAUT_HD inline float from_bfloat16(std::uint16_t upper) {
  return bits_float(static_cast<std::uint32_t>(upper) << 16U);
}

/// One of the two whole numbers next to `value`, the upper one with the probability of the
/// distance to the lower one, so that the mean is `value`; within [-127, 127].
/// draw  uniform in [0, 65536), so that the probability is exact to 2^-16
/// Source    Gupta et al., "Deep Learning with Limited Numerical Precision", ICML 2015, section 3
TAUT_HD inline std::int8_t round_by_chance(float value, std::uint32_t draw) {
  const float up = (static_cast<float>(draw) + 0.5F) * 0x1p-16F;
  float whole = std::floor(value + up);
  whole = whole > 127.0F ? 127.0F : whole;
  whole = whole < -127.0F ? -127.0F : whole;
  return static_cast<std::int8_t>(static_cast<std::int32_t>(whole));
}

}  // namespace taut::math
