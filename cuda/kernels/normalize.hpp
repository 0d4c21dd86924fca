#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>

// Layer and local response normalization. Images are stored as N, C, H, W. Formulas and sources are
// at the operations in worker/engine/ops.
namespace taut::cuda {

/// The divisor of a row's distances from its mean: the root of variance and epsilon, the root of
/// the variance plus epsilon, or 1.
enum class LayerNormDivisor : std::uint8_t { kRootOfSum, kSumOfRoot, kOne };

/// normalised, inverse  [rows, columns] and [rows]: kept for the backward pass
/// weight, bias         nullptr: 1 and 0
void layer_norm_forward(cudaStream_t stream, std::int64_t rows, std::int64_t columns, float epsilon,
                        LayerNormDivisor divisor, const float* bottom, const float* weight,
                        const float* bias, float* top, float* normalised, float* inverse);
void layer_norm_backward(cudaStream_t stream, std::int64_t rows, std::int64_t columns,
                         LayerNormDivisor divisor, const float* normalised, const float* inverse,
                         const float* weight, const float* top_gradient, float* bottom_gradient);

struct LrnShape {
  std::int64_t n = 0;
  std::int64_t c = 0;
  std::int64_t h = 0;
  std::int64_t w = 0;
  std::int64_t size = 5;
  bool within_channel = false;
  float alpha = 1;
  float beta = 0.75F;
  float k = 1;
};
/// scale  [n, c, h, w]: the base of the power -beta, kept for the backward pass
void lrn_forward(cudaStream_t stream, const LrnShape& shape, const float* bottom, float* scale,
                 float* top);
/// ratio  [n, c, h, w]: scratch
void lrn_backward(cudaStream_t stream, const LrnShape& shape, const float* bottom,
                  const float* scale, const float* top_gradient, float* ratio,
                  float* bottom_gradient);

}  // namespace taut::cuda
