#include "cuda/kernels/reduce.hpp"

#include "cuda/kernels/reduce.cuh"

namespace taut::cuda {
namespace {

__device__ double part_of(SumOf of, double x) {
  if (of == SumOf::kSquares) return x * x;
  return of == SumOf::kAbsolutes ? fabs(x) : x;
}

__global__ void __launch_bounds__(kThreads)
    row_reduction_kernel(SumOf of, float factor, std::int64_t rows, std::int64_t length,
                         const float* bottom, float* top) {
  for (std::int64_t row = blockIdx.x; row < rows; row += gridDim.x) {
    double sum = 0;
    for (std::int64_t i = threadIdx.x; i < length; i += kThreads) {
      sum += part_of(of, bottom[row * length + i]);
    }
    sum = block_sum(sum);
    if (threadIdx.x == 0) top[row] = static_cast<float>(factor * sum);
  }
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

void prelu_slope_gradients(cudaStream_t stream, const AxisView& view, const float* bottom,
                           const float* top_gradient, float* slopes_gradient, void* scratch) {
  reduce(
      stream, "prelu_slope_gradients", view, scratch,
      [=] __device__(std::int64_t i, std::int64_t, double& first, double&) {
        if (!(bottom[i] > 0)) first += top_gradient[i] * bottom[i];
      },
      [=] __device__(std::int64_t k, const Sums& total) {
        slopes_gradient[k] = static_cast<float>(total.first);
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

void row_reduction(cudaStream_t stream, SumOf of, float factor, std::int64_t rows,
                   std::int64_t length, const float* bottom, float* top) {
  if (rows <= 0) return;
  launch({stream, "row_reduction", rows * length, blocks_for(rows, 1)}, row_reduction_kernel, of,
         factor, rows, length, bottom, top);
}

void row_reduction_backward(cudaStream_t stream, SumOf of, float factor, std::int64_t rows,
                            std::int64_t length, const float* bottom, const float* top_gradient,
                            float* bottom_gradient) {
  each(stream, "row_reduction_backward", rows * length, [=] __device__(std::int64_t i) {
    const float slope = factor * top_gradient[i / length];
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
