#include "cuda/kernels/normalize.hpp"

#include "cuda/kernels/place_of.cuh"
#include "cuda/kernels/reduce.cuh"

namespace taut::cuda {
namespace {

__device__ float factor_of(double variance, float epsilon) {
  return static_cast<float>(1 / sqrt(variance + static_cast<double>(epsilon)));
}

__device__ float row_factor(double variance, float epsilon, LayerNormDivisor divisor) {
  if (divisor == LayerNormDivisor::kOne) return 1;
  if (divisor == LayerNormDivisor::kRootOfSum) return factor_of(variance, epsilon);
  return static_cast<float>(1 / (sqrt(variance) + static_cast<double>(epsilon)));
}

/// One block per row. The distances from the mean are squared, so nothing cancels.
__global__ void __launch_bounds__(kThreads)
    layer_norm_forward_kernel(std::int64_t rows, std::int64_t columns, float epsilon,
                              LayerNormDivisor divisor, const float* bottom, const float* weight,
                              const float* bias, float* top, float* normalised, float* inverse) {
  for (std::int64_t row = blockIdx.x; row < rows; row += gridDim.x) {
    const float* x = bottom + row * columns;
    float* kept = normalised + row * columns;
    double sum = 0;
    for (std::int64_t i = threadIdx.x; i < columns; i += kThreads) sum += x[i];
    const auto mean = static_cast<float>(block_sum_for_all(sum) / static_cast<double>(columns));
    double squares = 0;
    for (std::int64_t i = threadIdx.x; i < columns; i += kThreads) {
      const float distance = x[i] - mean;
      squares += static_cast<double>(distance) * distance;
    }
    const float factor =
        row_factor(block_sum_for_all(squares) / static_cast<double>(columns), epsilon, divisor);
    if (threadIdx.x == 0) inverse[row] = factor;
    for (std::int64_t i = threadIdx.x; i < columns; i += kThreads) {
      const float value = (x[i] - mean) * factor;
      kept[i] = value;
      top[row * columns + i] = weight == nullptr ? value : value * weight[i] + bias[i];
    }
  }
}

/// With g = dy * weight: dx = (g - mean(g) - normalised * mean(g * normalised)) * inverse.
__global__ void __launch_bounds__(kThreads)
    layer_norm_backward_kernel(std::int64_t rows, std::int64_t columns, LayerNormDivisor divisor,
                               const float* normalised, const float* inverse, const float* weight,
                               const float* top_gradient, float* bottom_gradient) {
  for (std::int64_t row = blockIdx.x; row < rows; row += gridDim.x) {
    const float* kept = normalised + row * columns;
    const float* dy = top_gradient + row * columns;
    double sum = 0;
    double along = 0;
    for (std::int64_t i = threadIdx.x; i < columns; i += kThreads) {
      const float g = weight == nullptr ? dy[i] : dy[i] * weight[i];
      sum += g;
      along += static_cast<double>(g) * kept[i];
    }
    const auto mean = static_cast<float>(block_sum_for_all(sum) / static_cast<double>(columns));
    // Without the division nothing depends on the deviation.
    const auto total_along = block_sum_for_all(along);
    const auto mean_along = divisor == LayerNormDivisor::kOne
                                ? 0.0F
                                : static_cast<float>(total_along / static_cast<double>(columns));
    for (std::int64_t i = threadIdx.x; i < columns; i += kThreads) {
      const float g = weight == nullptr ? dy[i] : dy[i] * weight[i];
      bottom_gradient[row * columns + i] = inverse[row] * (g - mean - kept[i] * mean_along);
    }
  }
}

/// The range of a neighbourhood along one side.
struct Reach {
  std::int64_t begin;
  std::int64_t end;
};
__device__ Reach reach_of(std::int64_t at, std::int64_t half, std::int64_t size) {
  return {at > half ? at - half : 0, at + half + 1 < size ? at + half + 1 : size};
}

/// The sum of term(j) over the places j of the neighbourhood of element i.
template <class Term>
__device__ float sum_around(const LrnShape& shape, std::int64_t i, const Term& term) {
  const std::int64_t half = shape.size / 2;
  const std::int64_t plane = shape.h * shape.w;
  float sum = 0;
  if (shape.within_channel) {
    const std::int64_t x = i % shape.w;
    const std::int64_t y = i / shape.w % shape.h;
    const std::int64_t base = i - y * shape.w - x;
    const Reach rows = reach_of(y, half, shape.h);
    const Reach columns = reach_of(x, half, shape.w);
    for (std::int64_t r = rows.begin; r < rows.end; ++r) {
      for (std::int64_t c = columns.begin; c < columns.end; ++c) {
        sum += term(base + r * shape.w + c);
      }
    }
    return sum;
  }
  const std::int64_t c = i / plane % shape.c;
  const std::int64_t base = i - c * plane;
  const Reach channels = reach_of(c, half, shape.c);
  for (std::int64_t k = channels.begin; k < channels.end; ++k) sum += term(base + k * plane);
  return sum;
}

/// scale ^ -beta; the usual exponent costs two roots instead of a logarithm and an exponential.
__device__ float lowered(float scale, float beta) {
  if (beta == 0.75F) return rsqrtf(scale) * rsqrtf(sqrtf(scale));
  return powf(scale, -beta);
}

std::int64_t count_of(const LrnShape& shape) {
  return shape.n * shape.c * shape.h * shape.w;
}

float share_of(const LrnShape& shape) {
  const auto size = static_cast<float>(shape.size);
  return shape.alpha / (shape.within_channel ? size * size : size);
}

}  // namespace

void batch_norm_statistics(cudaStream_t stream, const AxisView& view, const float* bottom,
                           float epsilon, float* mean, float* variance, float* shift, float* factor,
                           void* scratch) {
  const auto count = static_cast<double>(view.positions());
  const std::int64_t inner = view.inner;
  // Sums of distances from a value that occurs in the data: their squares cancel little.
  reduce(
      stream, "batch_norm_statistics", view, scratch,
      [=] __device__(std::int64_t i, std::int64_t k, double& first, double& second) {
        const float distance = bottom[i] - bottom[k * inner];
        first += distance;
        second += static_cast<double>(distance) * distance;
      },
      [=] __device__(std::int64_t k, const Sums& total) {
        const double distance = total.first / count;
        const double spread = at_least(total.second / count - distance * distance, 0.0);
        const double middle = bottom[k * inner] + distance;
        if (mean != nullptr) mean[k] = static_cast<float>(middle);
        if (variance != nullptr) variance[k] = static_cast<float>(spread);
        shift[k] = static_cast<float>(middle);
        factor[k] = factor_of(spread, epsilon);
      });
}

void batch_norm_kept(cudaStream_t stream, std::int64_t channels, const float* mean,
                     const float* variance, const float* weight, float epsilon, float* shift,
                     float* factor) {
  each(stream, "batch_norm_kept", channels, [=] __device__(std::int64_t k) {
    const double share = *weight == 0 ? 0 : 1 / static_cast<double>(*weight);
    shift[k] = static_cast<float>(share * mean[k]);
    factor[k] = factor_of(share * variance[k], epsilon);
  });
}

void batch_norm_normalize(cudaStream_t stream, const AxisView& view, const float* bottom,
                          const float* shift, const float* factor, float* top) {
  const PlaceOf channel(view);
  each(stream, "batch_norm_normalize", view.count(), [=] __device__(std::int64_t i) {
    const std::int64_t k = channel(i);
    top[i] = (bottom[i] - shift[k]) * factor[k];
  });
}

void batch_norm_slopes(cudaStream_t stream, const AxisView& view, const float* top,
                       const float* top_gradient, float* mean, float* slope, void* scratch) {
  const auto count = static_cast<double>(view.positions());
  reduce(
      stream, "batch_norm_slopes", view, scratch,
      [=] __device__(std::int64_t i, std::int64_t, double& first, double& second) {
        const double dy = top_gradient[i];
        first += dy;
        second += dy * top[i];
      },
      [=] __device__(std::int64_t k, const Sums& total) {
        mean[k] = static_cast<float>(total.first / count);
        slope[k] = static_cast<float>(total.second / count);
      });
}

void batch_norm_backward(cudaStream_t stream, const AxisView& view, const float* top,
                         const float* top_gradient, const float* factor, const float* mean,
                         const float* slope, float* bottom_gradient) {
  const PlaceOf channel(view);
  each(stream, "batch_norm_backward", view.count(), [=] __device__(std::int64_t i) {
    const std::int64_t k = channel(i);
    float dy = top_gradient[i];
    if (mean != nullptr) dy = dy - mean[k] - top[i] * slope[k];
    bottom_gradient[i] = factor[k] * dy;
  });
}

void layer_norm_forward(cudaStream_t stream, std::int64_t rows, std::int64_t columns, float epsilon,
                        LayerNormDivisor divisor, const float* bottom, const float* weight,
                        const float* bias, float* top, float* normalised, float* inverse) {
  launch({stream, "layer_norm_forward", rows * columns, blocks_for(rows, 1)},
         layer_norm_forward_kernel, rows, columns, epsilon, divisor, bottom, weight, bias, top,
         normalised, inverse);
}

void layer_norm_backward(cudaStream_t stream, std::int64_t rows, std::int64_t columns,
                         LayerNormDivisor divisor, const float* normalised, const float* inverse,
                         const float* weight, const float* top_gradient, float* bottom_gradient) {
  launch({stream, "layer_norm_backward", rows * columns, blocks_for(rows, 1)},
         layer_norm_backward_kernel, rows, columns, divisor, normalised, inverse, weight,
         top_gradient, bottom_gradient);
}

void lrn_forward(cudaStream_t stream, const LrnShape& shape, const float* bottom, float* scale,
                 float* top) {
  const float share = share_of(shape);
  each(stream, "lrn_forward", count_of(shape), [=] __device__(std::int64_t i) {
    const float squares =
        sum_around(shape, i, [=](std::int64_t j) { return bottom[j] * bottom[j]; });
    const float sum = shape.k + share * squares;
    scale[i] = sum;
    top[i] = bottom[i] * lowered(sum, shape.beta);
  });
}

void lrn_backward(cudaStream_t stream, const LrnShape& shape, const float* bottom,
                  const float* scale, const float* top_gradient, float* ratio,
                  float* bottom_gradient) {
  each(stream, "lrn_backward ratios", count_of(shape), [=] __device__(std::int64_t i) {
    ratio[i] = top_gradient[i] * bottom[i] * lowered(scale[i], shape.beta) / scale[i];
  });
  const float factor = 2 * share_of(shape) * shape.beta;
  each(stream, "lrn_backward", count_of(shape), [=] __device__(std::int64_t i) {
    const float sum = sum_around(shape, i, [=](std::int64_t j) { return ratio[j]; });
    bottom_gradient[i] = top_gradient[i] * lowered(scale[i], shape.beta) - factor * bottom[i] * sum;
  });
}

}  // namespace taut::cuda
