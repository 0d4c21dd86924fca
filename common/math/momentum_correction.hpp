#pragma once

#include <span>

// Momentum of a worker's own, before it chooses which values to send.
// Source    Lin et al., "Deep Gradient Compression", ICLR 2018, section 3
namespace taut::math {

/// out = momentum * velocity + scale * gradient. The velocity becomes that too, unless a value of
/// it is not finite: then it stays as it is. Section 3.1.
/// gradient, velocity, out  [n]
void advance_velocity(float momentum, float scale, std::span<const float> gradient,
                      std::span<float> velocity, float* out);

/// Velocities of values of which nothing is left to send become 0: section 3.2, "momentum factor
/// masking".
/// residual, velocity  [n]
void clear_sent_velocities(std::span<const float> residual, float* velocity);

}  // namespace taut::math
