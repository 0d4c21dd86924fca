#pragma once

#include <algorithm>
#include <cstdint>

#include "cuda/error.hpp"
#include "cuda/kernels/start.cuh"

// Launches of kernels over many elements: 64-bit indices, a grid-stride loop, every launch checked.
namespace taut::cuda {

inline constexpr int kThreads = 256;
inline constexpr unsigned kWholeWarp = 0xffffffffU;
// Enough to fill every existing device many times over; more blocks would only cost more to start.
inline constexpr std::int64_t kMaxBlocks = 16384;

inline unsigned blocks_for(std::int64_t items, std::int64_t per_block = kThreads) {
  const std::int64_t blocks = (items + per_block - 1) / per_block;
  return static_cast<unsigned>(std::clamp<std::int64_t>(blocks, 1, kMaxBlocks));
}

__device__ inline std::int64_t first_index() {
  return static_cast<std::int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
}
__device__ inline std::int64_t index_step() {
  return static_cast<std::int64_t>(gridDim.x) * blockDim.x;
}

/// A kernel's launch configuration, and its description for errors.
struct Launch {
  cudaStream_t stream = nullptr;
  const char* name = "";
  std::int64_t elements = 0;
  dim3 grid{1};
  unsigned threads = kThreads;
};

/// Every kernel is launched here, and each launch is checked.
/// Errors    DeviceError
template <class... Parameters, class... Arguments>
void launch(const Launch& how, void (*kernel)(Parameters...), const Arguments&... arguments) {
  start(how.name, how.elements, kernel, how.grid, how.threads, how.stream, arguments...);
  check_launch(how.name, how.elements);
}

template <class Work>
__global__ void __launch_bounds__(kThreads) each_kernel(std::int64_t count, Work work) {
  for (std::int64_t i = first_index(); i < count; i += index_step()) work(i);
}

/// Calls work(i) on the device for each i in [0, count).
template <class Work>
void each(cudaStream_t stream, const char* name, std::int64_t count, const Work& work) {
  if (count <= 0) return;
  launch({stream, name, count, blocks_for(count)}, each_kernel<Work>, count, work);
}

template <int kInputs>
struct Inputs {
  const float* at[kInputs];
};

/// out[i] = f(in...[i]); with kVector, four neighbours at a time.
template <bool kVector, int kInputs, class F>
__global__ void __launch_bounds__(kThreads)
    map_kernel(std::int64_t count, Inputs<kInputs> in, float* out, F f) {
  if constexpr (kVector) {
    const std::int64_t vectors = count / 4;
    for (std::int64_t i = first_index(); i < vectors; i += index_step()) {
      float4 x[kInputs];
#pragma unroll
      for (int k = 0; k < kInputs; ++k) x[k] = reinterpret_cast<const float4*>(in.at[k])[i];
      float4 y;
      if constexpr (kInputs == 1) {
        y = make_float4(f(x[0].x), f(x[0].y), f(x[0].z), f(x[0].w));
      } else {
        y = make_float4(f(x[0].x, x[1].x), f(x[0].y, x[1].y), f(x[0].z, x[1].z), f(x[0].w, x[1].w));
      }
      reinterpret_cast<float4*>(out)[i] = y;
    }
    const std::int64_t rest = vectors * 4 + first_index();
    if (rest < count) {
      if constexpr (kInputs == 1) {
        out[rest] = f(in.at[0][rest]);
      } else {
        out[rest] = f(in.at[0][rest], in.at[1][rest]);
      }
    }
  } else {
    for (std::int64_t i = first_index(); i < count; i += index_step()) {
      if constexpr (kInputs == 1) {
        out[i] = f(in.at[0][i]);
      } else {
        out[i] = f(in.at[0][i], in.at[1][i]);
      }
    }
  }
}

inline bool is_aligned(const void* address, std::uintptr_t alignment = 16) {
  return reinterpret_cast<std::uintptr_t>(address) % alignment == 0;
}

/// Element by element; `out` may be one of the inputs.
template <int kInputs, class F>
void map(cudaStream_t stream, const char* name, std::int64_t count, Inputs<kInputs> in, float* out,
         const F& f) {
  if (count <= 0) return;
  bool aligned = is_aligned(out);
  for (const float* input : in.at) aligned = aligned && is_aligned(input);
  if (aligned) {
    launch({stream, name, count, blocks_for((count + 3) / 4)}, map_kernel<true, kInputs, F>, count,
           in, out, f);
  } else {
    launch({stream, name, count, blocks_for(count)}, map_kernel<false, kInputs, F>, count, in, out,
           f);
  }
}

/// The sum over a block's threads, always in the same order; returned to thread 0.
template <class T>
__device__ T block_sum(T value) {
  using Parts = T[32];
  TAUT_SHARED(Parts, parts);
  __syncthreads();  // waits for an earlier call's readers
  for (int offset = 16; offset > 0; offset /= 2) {
    value += __shfl_down_sync(kWholeWarp, value, static_cast<unsigned>(offset));
  }
  const unsigned lane = threadIdx.x % 32;
  const unsigned warp = threadIdx.x / 32;
  if (lane == 0) parts[warp] = value;
  __syncthreads();
  if (warp == 0) {
    value = lane < (blockDim.x + 31) / 32 ? parts[lane] : T(0);
    for (int offset = 16; offset > 0; offset /= 2) {
      value += __shfl_down_sync(kWholeWarp, value, static_cast<unsigned>(offset));
    }
  }
  return value;
}

/// As block_sum, returned to every thread.
template <class T>
__device__ T block_sum_for_all(T value) {
  TAUT_SHARED(T, total);
  const T sum = block_sum(value);
  if (threadIdx.x == 0) total = sum;
  __syncthreads();
  const T result = total;
  __syncthreads();
  return result;
}

}  // namespace taut::cuda
