#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstdint>

#include "cuda/kernels/elementwise.hpp"

// Kernels that compute sums. Partial sums are in double and added in a fixed order: the same input
// gives the same bits in every run.
namespace taut::cuda {

/// How many blocks share each index of a view's length.
[[nodiscard]] unsigned reduce_parts(const AxisView& view);
/// The scratch bytes of a reduction over a view.
[[nodiscard]] std::size_t reduce_scratch(const AxisView& view);

/// sums[k] = the sum of values over all axes but the length
void channel_sums(cudaStream_t stream, const AxisView& view, const float* values, float* sums,
                  void* scratch);
/// factors_gradient[k] = sum of dy * bottom, summands_gradient[k] = sum of dy; either may be
/// nullptr.
void affine_parameter_gradients(cudaStream_t stream, const AxisView& view, const float* bottom,
                                const float* top_gradient, float* factors_gradient,
                                float* summands_gradient, void* scratch);

/// into = into * keep + the sum of squares; one double in device memory
void sum_of_squares(cudaStream_t stream, const float* values, std::int64_t count, double* into,
                    bool keep, void* scratch);

enum class SumOf : std::uint8_t { kValues, kAbsolutes, kSquares };
/// The scratch bytes of row_reduction().
[[nodiscard]] std::size_t row_reduction_scratch(std::int64_t rows, std::int64_t length);
/// top[row] = factor * the sum over a row of `length` elements
void row_reduction(cudaStream_t stream, SumOf of, float factor, std::int64_t rows,
                   std::int64_t length, const float* bottom, float* top, void* scratch);
void row_reduction_backward(cudaStream_t stream, SumOf of, float factor, std::int64_t rows,
                            std::int64_t length, const float* bottom, const float* top_gradient,
                            float* bottom_gradient);

}  // namespace taut::cuda
