#include "cuda/kernels/reduce.hpp"

#include "cuda/kernels/place_of.cuh"
#include "cuda/kernels/reduce.cuh"

namespace taut::cuda {
namespace {

__device__ double part_of(SumOf of, double x) {
  if (of == SumOf::kSquares) return x * x;
  return of == SumOf::kAbsolutes ? fabs(x) : x;
}

constexpr std::int64_t kShortRow = 256;  // a warp's

/// One warp per row.
__global__ void __launch_bounds__(kThreads)
    short_row_reduction_kernel(SumOf of, float factor, std::int64_t rows, std::int64_t length,
                               const float* bottom, float* top) {
  constexpr int kWarps = kThreads / 32;
  const unsigned lane = threadIdx.x % 32;
  for (std::int64_t row = static_cast<std::int64_t>(blockIdx.x) * kWarps + threadIdx.x / 32;
       row < rows; row += static_cast<std::int64_t>(gridDim.x) * kWarps) {
    double sum = 0;
    for (std::int64_t i = lane; i < length; i += 32) sum += part_of(of, bottom[row * length + i]);
    for (int offset = 16; offset > 0; offset /= 2) {
      sum += __shfl_xor_sync(kWholeWarp, sum, offset);
    }
    if (lane == 0) top[row] = static_cast<float>(factor * sum);
  }
}

/// Each row as an index of the length.
AxisView rows_of(std::int64_t rows, std::int64_t length) {
  return {.outer = 1, .length = rows, .inner = length};
}

}  // namespace

unsigned reduce_parts(const AxisView& view) {
  // Enough blocks for the device, each with a few thousand elements to add.
  constexpr std::int64_t kBlocks = 1024;
  constexpr std::int64_t kMinPerBlock = 4096;
  const bool is_rows = view.inner == 1 && view.length > 1;
  const std::int64_t columns =
      is_rows ? (view.length + kRowThreads - 1) / kRowThreads : view.length;
  const std::int64_t block = view.outer * view.inner * (is_rows ? kRowThreads : 1);
  const std::int64_t blocks =
      std::min(kBlocks / std::max<std::int64_t>(columns, 1), block / kMinPerBlock);
  return static_cast<unsigned>(std::clamp<std::int64_t>(blocks, 1, 1024));
}

std::size_t reduce_scratch(const AxisView& view) {
  const unsigned parts = reduce_parts(view);
  return parts == 1 ? 0 : parts * static_cast<std::size_t>(view.length) * sizeof(Sums);
}

void channel_sums(cudaStream_t stream, const AxisView& view, const float* values, float* sums,
                  void* scratch) {
  reduce(
      stream, "channel_sums", view, scratch,
      [=] __device__(std::int64_t i, std::int64_t, double& first, double&) { first += values[i]; },
      [=] __device__(std::int64_t k, const Sums& total) {
        sums[k] = static_cast<float>(total.first);
      });
}

void affine_parameter_gradients(cudaStream_t stream, const AxisView& view, const float* bottom,
                                const float* top_gradient, float* factors_gradient,
                                float* summands_gradient, void* scratch) {
  reduce(
      stream, "affine_parameter_gradients", view, scratch,
      [=] __device__(std::int64_t i, std::int64_t, double& first, double& second) {
        const float dy = top_gradient[i];
        if (factors_gradient != nullptr) first += dy * bottom[i];
        second += dy;
      },
      [=] __device__(std::int64_t k, const Sums& total) {
        if (factors_gradient != nullptr) factors_gradient[k] = static_cast<float>(total.first);
        if (summands_gradient != nullptr) summands_gradient[k] = static_cast<float>(total.second);
      });
}

void sum_of_squares(cudaStream_t stream, const float* values, std::int64_t count, double* into,
                    bool keep, void* scratch) {
  reduce(
      stream, "sum_of_squares", all_of(count), scratch,
      [=] __device__(std::int64_t i, std::int64_t, double& first, double&) {
        first += static_cast<double>(values[i]) * static_cast<double>(values[i]);
      },
      [=] __device__(std::int64_t, const Sums& total) {
        *into = keep ? *into + total.first : total.first;
      });
}

std::size_t row_reduction_scratch(std::int64_t rows, std::int64_t length) {
  return length <= kShortRow ? 0 : reduce_scratch(rows_of(rows, length));
}

void row_reduction(cudaStream_t stream, SumOf of, float factor, std::int64_t rows,
                   std::int64_t length, const float* bottom, float* top, void* scratch) {
  if (rows <= 0) return;
  if (length <= kShortRow) {
    launch({stream, "row_reduction", rows * length, blocks_for(rows, kThreads / 32)},
           short_row_reduction_kernel, of, factor, rows, length, bottom, top);
    return;
  }
  // Several blocks share a row where there are few.
  reduce(
      stream, "row_reduction", rows_of(rows, length), scratch,
      [=] __device__(std::int64_t i, std::int64_t, double& first, double&) {
        first += part_of(of, bottom[i]);
      },
      [=] __device__(std::int64_t row, const Sums& total) {
        top[row] = static_cast<float>(factor * total.first);
      });
}

void row_reduction_backward(cudaStream_t stream, SumOf of, float factor, std::int64_t rows,
                            std::int64_t length, const float* bottom, const float* top_gradient,
                            float* bottom_gradient) {
  const Divider row_of(length, rows * length);
  each(stream, "row_reduction_backward", rows * length, [=] __device__(std::int64_t i) {
    const float slope = factor * top_gradient[row_of(i)];
    if (of == SumOf::kValues) {
      bottom_gradient[i] = slope;
      return;
    }
    const float x = bottom[i];
    const float sign = static_cast<float>(x > 0) - static_cast<float>(x < 0);
    bottom_gradient[i] = slope * (of == SumOf::kSquares ? 2 * x : sign);
  });
}

}  // namespace taut::cuda
