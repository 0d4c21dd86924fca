#include "common/math/momentum_correction.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "common/math/codec_elements.hpp"
#include "common/math/vectorised.hpp"

namespace taut::math {
namespace {

/// Returns false if a result is not finite.
TAUT_VECTORISED bool step_velocity(float momentum, float scale, const float* gradient,
                                   const float* velocity, std::size_t count, float* out) {
  constexpr std::uint32_t kExponent = 0x7f800000;
  std::uint32_t found = 0;
  for (std::size_t i = 0; i < count; ++i) {
    out[i] = momentum * velocity[i] + scale * gradient[i];
    found |= (float_bits(out[i]) & kExponent) == kExponent ? 1U : 0U;
  }
  return found == 0;
}

}  // namespace

void advance_velocity(float momentum, float scale, std::span<const float> gradient,
                      std::span<float> velocity, float* out) {
  if (!step_velocity(momentum, scale, gradient.data(), velocity.data(), velocity.size(), out))
    return;
  std::copy_n(out, velocity.size(), velocity.begin());
}

void clear_sent_velocities(std::span<const float> residual, float* velocity) {
  for (std::size_t i = 0; i < residual.size(); ++i) {
    velocity[i] = residual[i] == 0 ? 0 : velocity[i];
  }
}

}  // namespace taut::math
