#include "cuda/kernels/encoding/velocity.hpp"

#include "common/math/codec_elements.hpp"
#include "cuda/kernels/encoding/findings.cuh"
#include "cuda/kernels/launch.cuh"

namespace taut::cuda {
namespace {

__global__ void __launch_bounds__(kThreads)
    step_velocity_kernel(VelocityStep step, std::int64_t count, const float* velocity,
                         float* gradient, Findings findings) {
  bool found = false;
  for (std::int64_t i = first_index(); i < count; i += index_step()) {
    const float moved = step.momentum * velocity[i] + step.scale * gradient[i];
    gradient[i] = moved;
    found = found || math::is_not_finite(moved);
  }
  note_findings(findings, found);
}

__global__ void __launch_bounds__(kThreads)
    keep_velocity_kernel(std::int64_t count, const float* moved, Findings findings,
                         float* velocity) {
  if (!all_finite(findings)) return;
  for (std::int64_t i = first_index(); i < count; i += index_step()) velocity[i] = moved[i];
}

}  // namespace

void advance_velocity(cudaStream_t stream, const VelocityStep& step, std::int64_t count,
                      float* gradient, float* velocity, void* scratch) {
  if (count <= 0) return;
  const Findings findings = findings_for(count, scratch);
  launch({stream, "step_velocity", count, findings.parts}, step_velocity_kernel, step, count,
         velocity, gradient, findings);
  launch({stream, "keep_velocity", count, blocks_for(count)}, keep_velocity_kernel, count, gradient,
         findings, velocity);
}

std::size_t velocity_scratch() {
  return kFindingsBytes;
}

void clear_sent_velocities(cudaStream_t stream, std::int64_t count, const float* residual,
                           float* velocity) {
  each(stream, "clear_sent_velocities", count, [=] __device__(std::int64_t i) {
    if (residual[i] == 0) velocity[i] = 0;
  });
}

}  // namespace taut::cuda
