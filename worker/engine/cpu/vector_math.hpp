#pragma once

#include <bit>
#include <cstdint>

// Functions without branches and calls, so that a loop over them becomes vector instructions. A
// file that uses them is compiled with -O3 -fno-math-errno -fno-trapping-math, and marks its loops
// TAUT_VECTOR_LOOP: one body for each kind of vector unit; the loader picks one at start.
#if defined(__x86_64__) && !defined(__SANITIZE_THREAD__) && !defined(__SANITIZE_ADDRESS__)
#define TAUT_VECTOR_LOOP \
  __attribute__((target_clones("arch=x86-64-v4", "arch=x86-64-v3", "default")))
#else
#define TAUT_VECTOR_LOOP
#endif

namespace taut::cpu {

/// e^x within 2 units in the last place; 0 and 2.4e38 where it leaves float's range. NaN stays NaN.
/// Source    Cephes, expf.c: x = n ln 2 + r, and a polynomial in r
inline float exp_of(float x) {
  constexpr float kRound = 12582912.0F;  // 1.5 * 2^23: adding it rounds to a whole number
  const float low = x < -87.3F ? -87.3F : x;
  const float clamped = low > 88.3F ? 88.3F : low;
  const float n = (clamped * 1.44269504F + kRound) - kRound;
  const float r = (clamped - n * 0.693359375F) + n * 2.12194440e-4F;
  float p = 1.9875691500e-4F;
  p = p * r + 1.3981999507e-3F;
  p = p * r + 8.3334519073e-3F;
  p = p * r + 4.1665795894e-2F;
  p = p * r + 1.6666665459e-1F;
  p = p * r + 5.0000001201e-1F;
  p = p * r * r + r + 1.0F;
  const auto power = static_cast<std::int32_t>(n == n ? n : 0.0F) + 127;
  const float result = p * std::bit_cast<float>(power << 23);
  return x < -87.3F ? 0.0F : result;
}

inline float sigmoid_of(float x) {
  return 1.0F / (1.0F + exp_of(-x));
}

/// Within 1e-7, absolutely.
inline float tanh_of(float x) {
  return 1.0F - 2.0F / (1.0F + exp_of(2.0F * x));
}

/// The error function within 2e-7, absolutely. exp_of_minus_square  e^(-x x)
/// Source    Abramowitz and Stegun, "Handbook of Mathematical Functions", 7.1.26
inline float erf_of(float x, float exp_of_minus_square) {
  const float size = x < 0 ? -x : x;
  const float t = 1.0F / (1.0F + 0.3275911F * size);
  float p = 1.061405429F;
  p = p * t - 1.453152027F;
  p = p * t + 1.421413741F;
  p = p * t - 0.284496736F;
  p = p * t + 0.254829592F;
  const float y = 1.0F - p * t * exp_of_minus_square;
  return x < 0 ? -y : y;
}

}  // namespace taut::cpu
