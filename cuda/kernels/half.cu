#include "cuda/kernels/half.hpp"

#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include "cuda/kernels/fault.cuh"
#include "cuda/kernels/launch.cuh"

namespace taut::cuda {
namespace {

constexpr unsigned kParts = 256;  // blocks that search for the largest value

template <class Half>
__device__ Half rounded(float value);
template <>
__device__ __nv_bfloat16 rounded<__nv_bfloat16>(float value) {
  return __float2bfloat16(value);
}
template <>
__device__ __half rounded<__half>(float value) {
  return __float2half_rn(value);
}
__device__ float widened(__nv_bfloat16 value) {
  return __bfloat162float(value);
}
__device__ float widened(__half value) {
  return __half2float(value);
}

template <class Half>
struct alignas(8) Four {
  Half at[4];
};

template <class Half>
__global__ void __launch_bounds__(kThreads)
    to_half_kernel(std::int64_t count, const float* from, Half* to, const float* scale,
                   bool aligned) {
  const float factor = scale == nullptr ? 1.0F : *scale;
  const std::int64_t vectors = aligned ? count / 4 : 0;
  for (std::int64_t i = first_index(); i < vectors; i += index_step()) {
    const float4 x = reinterpret_cast<const float4*>(from)[i];
    Four<Half> y;
    y.at[0] = rounded<Half>(x.x * factor);
    y.at[1] = rounded<Half>(x.y * factor);
    y.at[2] = rounded<Half>(x.z * factor);
    y.at[3] = rounded<Half>(x.w * factor);
    reinterpret_cast<Four<Half>*>(to)[i] = y;
  }
  for (std::int64_t i = vectors * 4 + first_index(); i < count; i += index_step()) {
    to[i] = rounded<Half>(from[i] * factor);
  }
}

/// A value larger than any float16 was computed as infinite.
__device__ void report_overflow(Fault* fault, float value, std::int64_t position) {
  constexpr std::int64_t kMaxFloat16 = 65504;
  if (fault == nullptr || !isinf(value)) return;
  report_fault(fault, Fault::kOverflow, value, position, kMaxFloat16);
}

template <class Half>
__global__ void __launch_bounds__(kThreads)
    from_half_kernel(std::int64_t count, const Half* from, float* to, const float* scale,
                     const float* other_scale, Fault* fault, bool aligned) {
  // Powers of two, each with a representable inverse; their product might not have one.
  const float factor = scale == nullptr ? 1.0F : 1 / *scale;
  const float other = other_scale == nullptr ? 1.0F : 1 / *other_scale;
  const std::int64_t vectors = aligned ? count / 4 : 0;
  for (std::int64_t i = first_index(); i < vectors; i += index_step()) {
    const Four<Half> x = reinterpret_cast<const Four<Half>*>(from)[i];
    for (int k = 0; k < 4; ++k) report_overflow(fault, widened(x.at[k]), 4 * i + k);
    reinterpret_cast<float4*>(to)[i] =
        make_float4(widened(x.at[0]) * other * factor, widened(x.at[1]) * other * factor,
                    widened(x.at[2]) * other * factor, widened(x.at[3]) * other * factor);
  }
  for (std::int64_t i = vectors * 4 + first_index(); i < count; i += index_step()) {
    report_overflow(fault, widened(from[i]), i);
    to[i] = widened(from[i]) * other * factor;
  }
}

template <class Half>
void launch_to_half(cudaStream_t stream, const float* from, void* to, std::int64_t count,
                    const float* scale) {
  const bool aligned = is_aligned(from) && is_aligned(to, 8);
  launch({stream, "to_half", count, blocks_for((count + 3) / 4)}, to_half_kernel<Half>, count, from,
         static_cast<Half*>(to), scale, aligned);
}

template <class Half>
void launch_from_half(cudaStream_t stream, const void* from, float* to, std::int64_t count,
                      const float* scale, const float* other_scale, Fault* fault) {
  const bool aligned = is_aligned(from, 8) && is_aligned(to);
  launch({stream, "from_half", count, blocks_for((count + 3) / 4)}, from_half_kernel<Half>, count,
         static_cast<const Half*>(from), to, scale, other_scale, fault, aligned);
}

__device__ float block_max(float value) {
  using Parts = float[32];
  TAUT_SHARED(Parts, parts);
  for (int offset = 16; offset > 0; offset /= 2) {
    value = fmaxf(value, __shfl_xor_sync(0xffffffffU, value, offset));
  }
  if (threadIdx.x % 32 == 0) parts[threadIdx.x / 32] = value;
  __syncthreads();
  value = threadIdx.x < kThreads / 32 ? parts[threadIdx.x] : 0.0F;
  for (int offset = 16; offset > 0; offset /= 2) {
    value = fmaxf(value, __shfl_xor_sync(0xffffffffU, value, offset));
  }
  return value;
}

/// NaN counts as infinite: a maximum would ignore it.
__device__ float magnitude(float value) {
  return isfinite(value) ? fabsf(value) : INFINITY;
}

__global__ void __launch_bounds__(kThreads)
    largest_kernel(std::int64_t count, const float* values, float* partial) {
  float largest = 0;
  for (std::int64_t i = first_index(); i < count; i += index_step()) {
    largest = fmaxf(largest, magnitude(values[i]));
  }
  largest = block_max(largest);
  if (threadIdx.x == 0) partial[blockIdx.x] = largest;
}

/// Exact: exp2f guarantees only two units in the last place.
__device__ float power_of_two(float exponent) {
  return scalbnf(1.0F, static_cast<int>(exponent));
}

__global__ void __launch_bounds__(kThreads)
    scale_kernel(unsigned parts, const float* partial, float target, float* scale) {
  const float largest = block_max(threadIdx.x < parts ? partial[threadIdx.x] : 0.0F);
  if (threadIdx.x != 0) return;
  const bool usable = largest > 0 && isfinite(largest);
  // A power of two, so that scaling loses no bits; limited so that its inverse is a normal number.
  *scale =
      usable ? power_of_two(fminf(fmaxf(floorf(log2f(target / largest)), -100.0F), 100.0F)) : 1.0F;
}

}  // namespace

void to_half(cudaStream_t stream, Numbers numbers, const float* from, void* to, std::int64_t count,
             const float* scale) {
  if (count <= 0) return;
  if (numbers == Numbers::kBfloat16) {
    launch_to_half<__nv_bfloat16>(stream, from, to, count, scale);
  } else {
    launch_to_half<__half>(stream, from, to, count, scale);
  }
}

void from_half(cudaStream_t stream, Numbers numbers, const void* from, float* to,
               std::int64_t count, const float* scale, const float* other_scale, Fault* fault) {
  if (count <= 0) return;
  if (numbers == Numbers::kBfloat16) {
    launch_from_half<__nv_bfloat16>(stream, from, to, count, scale, other_scale, nullptr);
  } else {
    launch_from_half<__half>(stream, from, to, count, scale, other_scale, fault);
  }
}

void divide_by(cudaStream_t stream, float* values, std::int64_t count, const float* scale) {
  each(stream, "divide_by", count, [=] __device__(std::int64_t i) { values[i] *= 1 / *scale; });
}

void scale_to(cudaStream_t stream, const float* values, std::int64_t count, float target,
              float* scale, void* scratch) {
  auto* partial = static_cast<float*>(scratch);
  const unsigned parts = std::min(blocks_for(count), kParts);
  launch({stream, "largest", count, parts}, largest_kernel, count, values, partial);
  launch({stream, "scale", parts}, scale_kernel, parts, partial, target, scale);
}

std::size_t magnitude_scratch() {
  return kParts * sizeof(float);
}

}  // namespace taut::cuda
