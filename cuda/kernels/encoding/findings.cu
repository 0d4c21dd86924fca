#include "cuda/kernels/encoding/findings.cuh"

#include "common/math/codec_elements.hpp"

namespace taut::cuda {
namespace {

__global__ void __launch_bounds__(kThreads)
    look_for_faults_kernel(std::int64_t count, const float* values, const float* residual,
                           Findings findings) {
  bool found = false;
  for (std::int64_t i = first_index(); i < count; i += index_step()) {
    found = found || math::is_not_finite(residual[i] + values[i]);
  }
  note_findings(findings, found);
}

__global__ void __launch_bounds__(kThreads)
    add_finite_kernel(std::int64_t count, const float* values, Findings findings, float* residual) {
  if (!all_finite(findings)) return;
  for (std::int64_t i = first_index(); i < count; i += index_step()) residual[i] += values[i];
}

}  // namespace

Findings look_for_faults(cudaStream_t stream, const EncodedSlice& slice, void* memory) {
  const Findings findings = findings_for(slice.count, memory);
  launch({stream, "look_for_faults", slice.count, findings.parts}, look_for_faults_kernel,
         slice.count, slice.values, slice.state, findings);
  return findings;
}

Findings add_up(cudaStream_t stream, const EncodedSlice& slice, void* memory) {
  const Findings findings = look_for_faults(stream, slice, memory);
  launch({stream, "add_finite", slice.count, blocks_for(slice.count)}, add_finite_kernel,
         slice.count, slice.values, findings, slice.state);
  return findings;
}

}  // namespace taut::cuda
