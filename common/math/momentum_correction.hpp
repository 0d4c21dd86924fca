#pragma once

#include <span>

// A worker's own momentum, applied before it selects the values to send.
// Source    Lin et al., "Deep Gradient Compression", ICLR 2018, section 3
namespace taut::math {

/// out = momentum * velocity + scale * gradient. The velocity becomes that too, unless a value of
/// it is not finite: then the velocity is unchanged. Section 3.1.
/// gradient, velocity, out  [n]
void advance_velocity(float momentum, float scale, std::span<const float> gradient,
                      std::span<float> velocity, float* out);

/// Sets the velocities of values whose residual is 0 to 0: section 3.2, "momentum factor
/// masking".
/// residual, velocity  [n]
void clear_sent_velocities(std::span<const float> residual, float* velocity);

}  // namespace taut::math
