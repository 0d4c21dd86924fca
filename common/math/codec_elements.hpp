#pragma once

#include <cmath>
#include <cstddef>
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

/// The nearest IEEE 754 binary16 number, ties to even. A finite value beyond 65,504 becomes
/// 65,504, so that no finite gradient turns into an infinite one.
TAUT_HD inline std::uint16_t to_float16(float value) {
  constexpr std::uint32_t kInfinity = 0x7f800000;
  constexpr std::uint32_t kMaxFloat16 = 0x477fe000;  // 65,504
  constexpr std::uint32_t kNormal = 0x38800000;      // 2^-14
  constexpr std::uint32_t kExponents = 0x38000000;   // the distance of the two biases, 112
  constexpr std::uint32_t kHalf = 0x3f000000;        // 0.5, whose last place is 2^-24
  const std::uint32_t bits = float_bits(value);
  const std::uint32_t sign = bits >> 16U & 0x8000U;
  const std::uint32_t given = bits & 0x7fffffffU;
  const std::uint32_t magnitude = given > kMaxFloat16 ? kMaxFloat16 : given;
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

/// The nearest bfloat16 number, ties to even. Finite values stay finite.
TAUT_HD inline std::uint16_t to_bfloat16(float value) {
  constexpr std::uint32_t kInfinity = 0x7f800000;
  constexpr std::uint32_t kMaxBfloat16 = 0x7f7f0000;
  const std::uint32_t bits = float_bits(value);
  const std::uint32_t given = bits & 0x7fffffffU;
  const std::uint32_t magnitude = given > kMaxBfloat16 ? kMaxBfloat16 : given;
  const std::uint32_t finite = magnitude + 0x7fffU + (magnitude >> 16U & 1U);
  const std::uint32_t special = given > kInfinity ? 0x7fc00000U : kInfinity;
  return static_cast<std::uint16_t>(
      ((bits & 0x80000000U) | (given < kInfinity ? finite : special)) >> 16U);
}

TAUT_HD inline float from_bfloat16(std::uint16_t upper) {
  return bits_float(static_cast<std::uint32_t>(upper) << 16U);
}

/// One of the two whole numbers next to `value`, the upper one with a probability equal to the
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

/// Whether the value is infinite or NaN.
TAUT_HD inline bool is_not_finite(float value) {
  constexpr std::uint32_t kExponent = 0x7f800000;
  return (float_bits(value) & kExponent) == kExponent;
}

/// The quiet NaN that is written where a value is not finite.
TAUT_HD inline float no_number() {
  return bits_float(0x7fc00000U);
}

/// The step of a block of INT8, and its inverse.
struct Int8Steps {
  float step;
  float inverse;
  bool is_drawn;  // otherwise all of its numbers are 0
};

/// largest  the bits of the block's largest magnitude
TAUT_HD inline Int8Steps int8_steps(std::uint32_t largest) {
  constexpr std::uint32_t kInfinity = 0x7f800000;
  constexpr std::uint32_t kMinMagnitude = 0x0d800000;  // 2^-100
  if (largest >= kInfinity) return {no_number(), 0, false};
  if (largest < kMinMagnitude) return {0, 0, false};
  return {bits_float(largest) / 127.0F, 127.0F / bits_float(largest), true};
}

/// The 16 bits of Philox by which a value of a block of INT8 is rounded: neighbours use consecutive
/// calls, so that a processor makes several calls at a time.
struct Int8Draw {
  std::uint32_t call;  // of the block's 32
  std::uint32_t word;
  std::uint32_t shift;
};
TAUT_HD constexpr Int8Draw int8_draw(std::uint32_t place) {
  return {place % 32, place / 64, place / 32 % 2 * 16};
}

/// Element i of a block of ONE_BIT is summed in lane i modulo this, and then the lanes in order, so
/// that every processor gets the same bits.
inline constexpr std::size_t kMeanLanes = 16;

/// What the values of a block of ONE_BIT are decoded as.
struct OneBitMeans {
  float below;  // for values below 0
  float rest;
};

/// negatives  how many of the block's `count` values are below 0
TAUT_HD inline OneBitMeans one_bit_means(double below_sum, double rest_sum, std::int32_t negatives,
                                         std::int32_t count) {
  OneBitMeans means{0, 0};
  const std::int32_t others = count - negatives;
  if (negatives > 0) means.below = static_cast<float>(below_sum / negatives);
  if (others > 0) means.rest = static_cast<float>(rest_sum / others);
  return means;
}

TAUT_HD inline float read_as(const OneBitMeans& means, float value) {
  return value < 0 ? means.below : means.rest;
}

/// Element i of a product of two rows of POWER_SGD is summed in lane i modulo this, and then the
/// lanes in order.
inline constexpr std::size_t kRowLanes = 16;
/// Element i of a product of two columns, which may be longer, is summed in lane i modulo this, and
/// then lane i with lane i + 128, lane i with lane i + 64, and so on.
inline constexpr std::size_t kColumnLanes = 256;
/// The share of a column's length that orthogonalization must leave: less is rounding error.
inline constexpr double kVanished = 1e-6;

/// The initial value of an element of POWER_SGD's factor: uniform in [-1, 1].
TAUT_HD inline float drawn_factor(std::uint32_t word) {
  return static_cast<float>(word) / 2147483648.0F - 1.0F;
}

/// The magnitude of TOP_K's smallest value is found digit by digit, of 11, 10 and 10 bits.
struct MagnitudeDigit {
  std::uint32_t shift;
  std::uint32_t above;  // shift of the digits found before
  std::uint32_t mask;
};
inline constexpr MagnitudeDigit kMagnitudeDigits[]{{20, 31, 2047}, {10, 20, 1023}, {0, 10, 1023}};
inline constexpr std::size_t kMagnitudeCounts = 2048;  // the most values that a digit can have

TAUT_HD inline std::uint32_t magnitude_bits(float value) {
  return float_bits(value) & 0x7fffffffU;
}

/// The place that RANDOM_K has drawn from a stretch.
/// word  the stretch's own word of Philox
TAUT_HD constexpr std::uint64_t place_in_stretch(std::uint64_t begin, std::uint64_t length,
                                                 std::uint32_t word) {
  return begin + (word * length >> 32U);
}

}  // namespace taut::math
