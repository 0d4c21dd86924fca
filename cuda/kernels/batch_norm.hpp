#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>

#include "cuda/kernels/reduce.hpp"

// Batch normalization, alone and with the Scale and the ReLU that follow it. Formulas and sources
// are at the operations in worker/engine.
namespace taut::cuda {

/// mean, variance, shift, factor  [view.length] each; shift is the mean, factor 1 / sqrt(variance +
/// epsilon). mean and variance may be nullptr.
void batch_norm_statistics(cudaStream_t stream, const AxisView& view, const float* bottom,
                           float epsilon, float* mean, float* variance, float* shift, float* factor,
                           void* scratch);
/// Shift and factor from sums that are divided by *weight; 0 makes them 0.
void batch_norm_kept(cudaStream_t stream, std::int64_t channels, const float* mean,
                     const float* variance, const float* weight, float epsilon, float* shift,
                     float* factor);
void batch_norm_normalize(cudaStream_t stream, const AxisView& view, const float* bottom,
                          const float* shift, const float* factor, float* top);
/// mean[k] = mean of dy, slope[k] = mean of dy * y
void batch_norm_slopes(cudaStream_t stream, const AxisView& view, const float* top,
                       const float* top_gradient, float* mean, float* slope, void* scratch);
/// mean, slope  nullptr: the statistics were constants
void batch_norm_backward(cudaStream_t stream, const AxisView& view, const float* top,
                         const float* top_gradient, const float* factor, const float* mean,
                         const float* slope, float* bottom_gradient);

/// The numbers of each channel, [view.length] each.
struct ScaledBatchNorm {
  const float* shift = nullptr;
  const float* factor = nullptr;
  const float* factors = nullptr;
  const float* summands = nullptr;  // nullptr: zeros
  bool relu = false;
};
/// top = (bottom - shift) * factor * factors + summands, and a ReLU of that
void scaled_batch_norm_forward(cudaStream_t stream, const AxisView& view,
                               const ScaledBatchNorm& numbers, const float* bottom, float* top);
/// The gradients of factors and summands, either of which may be nullptr, and what
/// scaled_batch_norm_backward() reads: the means of the normalised values' gradient, and of that
/// times the normalised values.
void scaled_batch_norm_sums(cudaStream_t stream, const AxisView& view,
                            const ScaledBatchNorm& numbers, const float* bottom,
                            const float* top_gradient, float* factors_gradient,
                            float* summands_gradient, float* mean, float* slope, void* scratch);
void scaled_batch_norm_backward(cudaStream_t stream, const AxisView& view,
                                const ScaledBatchNorm& numbers, const float* bottom,
                                const float* top_gradient, const float* mean, const float* slope,
                                float* bottom_gradient);

/// Running sums of the statistics, and of their weights: the old sums, the newest, the new sums.
struct RunningStatistics {
  const float* mean_sum;
  const float* variance_sum;
  const float* weight_sum;
  const float* mean;
  const float* variance;
  float* next_mean_sum;      // nullptr: not computed
  float* next_variance_sum;  // nullptr: not computed
  float* next_weight_sum;    // nullptr: not computed
};
/// next = fraction * sum + newest, the variance times `unbiased`
void running_statistics(cudaStream_t stream, std::int64_t channels, float fraction, float unbiased,
                        const RunningStatistics& sums);

}  // namespace taut::cuda
