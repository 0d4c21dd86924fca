#include "tests/twin/libraries/arithmetic.hpp"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>

namespace taut::twin {
namespace {

std::uint16_t to_bfloat16(float value) {
  const auto bits = std::bit_cast<std::uint32_t>(value);
  if (std::isnan(value)) return static_cast<std::uint16_t>((bits >> 16U) | 0x40U);
  return static_cast<std::uint16_t>((bits + 0x7FFFU + ((bits >> 16U) & 1U)) >> 16U);
}

float from_bfloat16(std::uint16_t bits) {
  return std::bit_cast<float>(static_cast<std::uint32_t>(bits) << 16U);
}

std::uint16_t to_float16(float value) {
  const std::uint32_t sign = (std::bit_cast<std::uint32_t>(value) >> 16U) & 0x8000U;
  const float size = std::abs(value);
  if (std::isnan(value)) return static_cast<std::uint16_t>(sign | 0x7E00U);
  // From 65520 on, half way from the largest finite number to the next, all is infinite.
  if (size >= 65520.0F) return static_cast<std::uint16_t>(sign | 0x7C00U);
  // Below 2^-14 numbers are multiples of 2^-24. The default rounding is to nearest, ties to even.
  if (size < 0x1p-14F) {
    return static_cast<std::uint16_t>(sign |
                                      static_cast<std::uint32_t>(std::nearbyint(size * 0x1p24F)));
  }
  const auto bits = std::bit_cast<std::uint32_t>(size);
  const std::uint32_t rounded = bits + 0xFFFU + ((bits >> 13U) & 1U);
  return static_cast<std::uint16_t>(sign | ((rounded - (112U << 23U)) >> 13U));
}

float from_float16(std::uint16_t bits) {
  const std::uint32_t sign = (bits & 0x8000U) << 16U;
  const std::uint32_t exponent = (bits >> 10U) & 0x1FU;
  const std::uint32_t fraction = bits & 0x3FFU;
  if (exponent == 0) {
    const float size = static_cast<float>(fraction) * 0x1p-24F;
    return sign == 0 ? size : -size;
  }
  const std::uint32_t wide = exponent == 31 ? 255U : exponent + 112U;
  return std::bit_cast<float>(sign | (wide << 23U) | (fraction << 13U));
}

float to_tf32(float value) {
  if (!std::isfinite(value)) return value;
  return std::bit_cast<float>((std::bit_cast<std::uint32_t>(value) + 0x1000U) & ~0x1FFFU);
}

constexpr std::size_t kRows = 4;
constexpr std::size_t kColumns = 16;
using Vector = float __attribute__((vector_size(32)));

/// kRows rows of c by kColumns columns. panel is [k, kColumns].
[[gnu::always_inline]] inline void multiply_tile(std::size_t rows, std::size_t columns,
                                                 std::size_t k, const float* a, const float* panel,
                                                 float* c, std::size_t stride, bool accumulate) {
  Vector sums[kRows][2] = {};
  const float* row[kRows];
  for (std::size_t i = 0; i < kRows; ++i) row[i] = a + std::min(i, rows - 1) * k;
  for (std::size_t step = 0; step < k; ++step) {
    Vector left;
    Vector right;
    std::memcpy(&left, panel + step * kColumns, sizeof left);
    std::memcpy(&right, panel + step * kColumns + 8, sizeof right);
    for (std::size_t i = 0; i < kRows; ++i) {
      const float factor = row[i][step];
      sums[i][0] += left * factor;
      sums[i][1] += right * factor;
    }
  }
  for (std::size_t i = 0; i < rows; ++i) {
    float* const into = c + i * stride;
    for (std::size_t j = 0; j < columns; ++j) {
      const float sum = sums[i][j / 8][j % 8];
      into[j] = accumulate ? into[j] + sum : sum;
    }
  }
}

[[gnu::always_inline]] inline void multiply_all(std::size_t m, std::size_t n, std::size_t k,
                                                const float* a, const float* b, float* c,
                                                bool accumulate) {
  std::vector<float> panel(k * kColumns);
  for (std::size_t column = 0; column < n; column += kColumns) {
    const std::size_t columns = std::min(kColumns, n - column);
    for (std::size_t step = 0; step < k; ++step) {
      std::memcpy(panel.data() + step * kColumns, b + step * n + column, columns * sizeof(float));
    }
    for (std::size_t i = 0; i < m; i += kRows) {
      multiply_tile(std::min(kRows, m - i), columns, k, a + i * k, panel.data(), c + i * n + column,
                    n, accumulate);
    }
  }
}

#if defined(__x86_64__)
[[gnu::target("avx2,fma")]] void multiply_wide(std::size_t m, std::size_t n, std::size_t k,
                                               const float* a, const float* b, float* c,
                                               bool accumulate) {
  multiply_all(m, n, k, a, b, c, accumulate);
}
#endif

}  // namespace

std::size_t size_of(Format format) {
  return format == Format::kBfloat16 || format == Format::kFloat16 ? 2 : 4;
}

const char* name_of(Format format) {
  switch (format) {
    case Format::kFloat32:
      return "float32";
    case Format::kTf32:
      return "TF32";
    case Format::kBfloat16:
      return "bfloat16";
    case Format::kFloat16:
      return "float16";
  }
  return "";
}

float round_to(Format format, float value) {
  switch (format) {
    case Format::kFloat32:
      return value;
    case Format::kTf32:
      return to_tf32(value);
    case Format::kBfloat16:
      return from_bfloat16(to_bfloat16(value));
    case Format::kFloat16:
      return from_float16(to_float16(value));
  }
  return value;
}

float load(Format format, const void* from, std::size_t index) {
  if (size_of(format) == 4) {
    float value = 0;
    std::memcpy(&value, static_cast<const float*>(from) + index, sizeof value);
    return value;
  }
  std::uint16_t bits = 0;
  std::memcpy(&bits, static_cast<const std::uint16_t*>(from) + index, sizeof bits);
  return format == Format::kBfloat16 ? from_bfloat16(bits) : from_float16(bits);
}

void store(Format format, void* into, std::size_t index, float value) {
  if (size_of(format) == 4) {
    std::memcpy(static_cast<float*>(into) + index, &value, sizeof value);
    return;
  }
  const std::uint16_t bits = format == Format::kBfloat16 ? to_bfloat16(value) : to_float16(value);
  std::memcpy(static_cast<std::uint16_t*>(into) + index, &bits, sizeof bits);
}

std::vector<float> load_factors(Format stored, Format factor, const void* from, std::size_t count) {
  std::vector<float> factors(count);
  if (stored == Format::kFloat32 && factor == Format::kFloat32) {
    if (count > 0) std::memcpy(factors.data(), from, count * sizeof(float));
    return factors;
  }
  const bool is_rounded = stored == Format::kFloat32;
  for (std::size_t i = 0; i < count; ++i) {
    const float value = load(stored, from, i);
    factors[i] = is_rounded ? round_to(factor, value) : value;
  }
  return factors;
}

void multiply(std::size_t m, std::size_t n, std::size_t k, const float* a, const float* b, float* c,
              bool accumulate) {
#if defined(__x86_64__)
  static const bool is_wide = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
  if (is_wide) return multiply_wide(m, n, k, a, b, c, accumulate);
#endif
  multiply_all(m, n, k, a, b, c, accumulate);
}

std::vector<float> transpose(const float* in, std::size_t rows, std::size_t columns) {
  std::vector<float> out(rows * columns);
  for (std::size_t i = 0; i < rows; ++i) {
    for (std::size_t j = 0; j < columns; ++j) out[j * rows + i] = in[i * columns + j];
  }
  return out;
}

std::uint64_t checksum(const void* begin, std::size_t bytes) {
  constexpr std::uint64_t kPrime = 0x100000001B3;
  std::uint64_t sum = 0xCBF29CE484222325 ^ bytes;
  const auto* at = static_cast<const unsigned char*>(begin);
  for (; bytes >= sizeof(std::uint64_t); bytes -= sizeof(std::uint64_t)) {
    std::uint64_t word = 0;
    std::memcpy(&word, at, sizeof word);
    sum = (sum ^ word) * kPrime;
    sum ^= sum >> 32U;
    at += sizeof word;
  }
  for (; bytes > 0; --bytes) sum = (sum ^ *at++) * kPrime;
  return sum;
}

}  // namespace taut::twin
