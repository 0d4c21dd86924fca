#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>

// Pooling of images stored as N, C, H, W, with Caffe's windows: the last one of a side may extend
// over the edge, which cuDNN's cannot.
// Source    Caffe, src/caffe/layers/pooling_layer.cpp
namespace taut::cuda {

struct PoolShape {
  std::int64_t planes = 0;  // n * c
  std::int64_t h = 0, w = 0;
  std::int64_t top_h = 0, top_w = 0;
  std::int64_t kernel_h = 1, kernel_w = 1;
  std::int64_t stride_h = 1, stride_w = 1;
  std::int64_t pad_h = 0, pad_w = 0;
};

/// chosen  [planes, top_h, top_w]: the source of each top element, in its plane
void max_pool_forward(cudaStream_t stream, const PoolShape& shape, const float* bottom, float* top,
                      std::int32_t* chosen);
void max_pool_backward(cudaStream_t stream, const PoolShape& shape, const std::int32_t* chosen,
                       const float* top_gradient, float* bottom_gradient);
void average_pool_forward(cudaStream_t stream, const PoolShape& shape, const float* bottom,
                          float* top);
void average_pool_backward(cudaStream_t stream, const PoolShape& shape, const float* top_gradient,
                           float* bottom_gradient);

/// The source of stochastic pooling's random numbers: Philox, at the clock that device memory
/// holds.
struct PoolDraw {
  std::uint64_t key = 0;
  std::uint64_t stream = 0;
};
/// Draws an element of each window in proportion to its value; max_pool_backward is its backward.
void stochastic_pool_forward(cudaStream_t stream, const PoolShape& shape, const PoolDraw& draw,
                             const std::int64_t* clock, const float* bottom, float* top,
                             std::int32_t* chosen);
/// The sum of each window's squares over its sum.
void weighed_pool_forward(cudaStream_t stream, const PoolShape& shape, const float* bottom,
                          float* top);

}  // namespace taut::cuda
