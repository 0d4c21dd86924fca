#pragma once

#include <algorithm>
#include <cstdint>

#include "cuda/kernels/elementwise.hpp"
#include "cuda/kernels/launch.cuh"
#include "cuda/kernels/reduce.hpp"

// Sums for each index of a view's length, in double, always in the same order.
namespace taut::cuda {

inline constexpr int kRowThreads = 32;  // per block, along x
inline constexpr int kRowLanes = 8;     // along y

/// The larger one; NaN stays NaN, which fmax() would drop.
__device__ inline double at_least(double value, double least) {
  return value < least ? least : value;
}

__device__ inline float inverse_deviation(double variance, float epsilon) {
  return static_cast<float>(1 / sqrt(variance + static_cast<double>(epsilon)));
}

/// The terms of a reduction.
struct Sums {
  double first;
  double second;
};

/// The work of one block: the elements of one index, in parts that blocks share.
template <class Term, class Finish>
__global__ void __launch_bounds__(kThreads)
    plane_sums_kernel(AxisView view, bool is_small, Sums* partial, Term term, Finish finish) {
  const std::int64_t k = blockIdx.x;
  const std::int64_t per_index = view.outer * view.inner;
  Sums sums{};
  for (std::int64_t e = static_cast<std::int64_t>(blockIdx.y) * kThreads + threadIdx.x;
       e < per_index; e += static_cast<std::int64_t>(gridDim.y) * kThreads) {
    const std::int64_t o =
        is_small ? static_cast<std::uint32_t>(e) / static_cast<std::uint32_t>(view.inner)
                 : e / view.inner;
    const std::int64_t i = e - o * view.inner;
    term((o * view.length + k) * view.inner + i, k, sums.first, sums.second);
  }
  sums.first = block_sum(sums.first);
  sums.second = block_sum(sums.second);
  if (threadIdx.x != 0) return;
  if (gridDim.y == 1) {
    finish(k, sums);
  } else {
    partial[blockIdx.y * view.length + k] = sums;
  }
}

/// As above, if the length is the innermost axis: neighbours in memory are neighbouring indices.
template <class Term, class Finish>
__global__ void __launch_bounds__(kThreads)
    row_sums_kernel(AxisView view, Sums* partial, Term term, Finish finish) {
  using Lanes = Sums[kRowLanes][kRowThreads];
  TAUT_SHARED(Lanes, lanes);
  const unsigned x = threadIdx.x % kRowThreads;
  const unsigned y = threadIdx.x / kRowThreads;
  const std::int64_t k = static_cast<std::int64_t>(blockIdx.x) * kRowThreads + x;
  Sums sums{};
  if (k < view.length) {
    for (std::int64_t o = static_cast<std::int64_t>(blockIdx.y) * kRowLanes + y; o < view.outer;
         o += static_cast<std::int64_t>(gridDim.y) * kRowLanes) {
      term(o * view.length + k, k, sums.first, sums.second);
    }
  }
  lanes[y][x] = sums;
  __syncthreads();
  if (y != 0 || k >= view.length) return;
  for (int lane = 1; lane < kRowLanes; ++lane) {
    sums.first += lanes[lane][x].first;
    sums.second += lanes[lane][x].second;
  }
  if (gridDim.y == 1) {
    finish(k, sums);
  } else {
    partial[blockIdx.y * view.length + k] = sums;
  }
}

template <class Finish>
__global__ void __launch_bounds__(kThreads)
    finish_sums_kernel(std::int64_t length, unsigned parts, const Sums* partial, Finish finish) {
  for (std::int64_t k = first_index(); k < length; k += index_step()) {
    Sums sums{};
    for (unsigned part = 0; part < parts; ++part) {
      sums.first += partial[part * length + k].first;
      sums.second += partial[part * length + k].second;
    }
    finish(k, sums);
  }
}

/// Calls term(index, k, first, second) for each element, which adds to both sums, and then
/// finish(k, sums) once for each k.
/// scratch  reduce_scratch(view) bytes
template <class Term, class Finish>
void reduce(cudaStream_t stream, const char* name, const AxisView& view, void* scratch,
            const Term& term, const Finish& finish) {
  const unsigned parts = reduce_parts(view);
  auto* partial = static_cast<Sums*>(scratch);
  if (view.inner == 1 && view.length > 1) {
    const auto columns = static_cast<unsigned>((view.length + kRowThreads - 1) / kRowThreads);
    launch({stream, name, view.count(), dim3(columns, parts)}, row_sums_kernel<Term, Finish>, view,
           partial, term, finish);
  } else {
    const bool is_small = view.outer * view.inner < (std::int64_t{1} << 31U);
    const dim3 grid(static_cast<unsigned>(view.length), parts);
    launch({stream, name, view.count(), grid}, plane_sums_kernel<Term, Finish>, view, is_small,
           partial, term, finish);
  }
  if (parts == 1) return;
  launch({stream, name, view.length, blocks_for(view.length)}, finish_sums_kernel<Finish>,
         view.length, parts, partial, finish);
}

/// The view of a whole array as one sum.
inline AxisView all_of(std::int64_t count) {
  return {.outer = 1, .length = 1, .inner = count};
}

}  // namespace taut::cuda
