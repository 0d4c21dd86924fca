#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstdint>

// A worker's own momentum on its device: common/math/momentum_correction.hpp, with the bits of
// the CPU.
namespace taut::cuda {

struct VelocityStep {
  float momentum = 0;
  float scale = 1;  // of the gradient
};
/// As math::advance_velocity(), in place.
/// gradient, velocity  [count]
/// scratch             velocity_scratch() bytes
void advance_velocity(cudaStream_t stream, const VelocityStep& step, std::int64_t count,
                      float* gradient, float* velocity, void* scratch);
[[nodiscard]] std::size_t velocity_scratch();

/// As math::clear_sent_velocities().
void clear_sent_velocities(cudaStream_t stream, std::int64_t count, const float* residual,
                           float* velocity);

}  // namespace taut::cuda
