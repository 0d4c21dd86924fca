#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstdint>

#include "cuda/convolution_key.hpp"
#include "cuda/fault.hpp"

// Between float32 and the 16-bit formats of tensor cores.
namespace taut::cuda {

/// to = from * *scale, rounded; numbers: bfloat16 or float16. scale  nullptr: 1
void to_half(cudaStream_t stream, Numbers numbers, const float* from, void* to, std::int64_t count,
             const float* scale = nullptr);
/// to = from / (*scale * *other_scale), powers of two whose product need not be a float32. nullptr:
/// 1
/// fault  where an infinite float16 is recorded; nullptr: it is passed on
void from_half(cudaStream_t stream, Numbers numbers, const void* from, float* to,
               std::int64_t count, const float* scale = nullptr, const float* other_scale = nullptr,
               Fault* fault = nullptr);
/// values = values / *scale
void divide_by(cudaStream_t stream, float* values, std::int64_t count, const float* scale);

/// *scale = the power of two that brings the largest absolute value to `target`, or 1 if all are 0
/// or one is NaN.
/// scratch  magnitude_scratch() bytes
void scale_to(cudaStream_t stream, const float* values, std::int64_t count, float target,
              float* scale, void* scratch);
[[nodiscard]] std::size_t magnitude_scratch();

}  // namespace taut::cuda
