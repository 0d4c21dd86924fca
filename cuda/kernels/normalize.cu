#include "cuda/kernels/normalize.hpp"

#include "cuda/kernels/place_of.cuh"
#include "cuda/kernels/reduce.cuh"

namespace taut::cuda {
namespace {

__device__ float row_factor(double variance, float epsilon, LayerNormDivisor divisor) {
  if (divisor == LayerNormDivisor::kOne) return 1;
  if (divisor == LayerNormDivisor::kRootOfSum) return inverse_deviation(variance, epsilon);
  return static_cast<float>(1 / (sqrt(variance) + static_cast<double>(epsilon)));
}

/// The sum over the threads that share a row, a warp or a block, for all of them.
template <int kWidth>
__device__ double row_sum(double value) {
  if constexpr (kWidth == kThreads) {
    return block_sum_for_all(value);
  } else {
    for (int offset = 16; offset > 0; offset /= 2) {
      value += __shfl_xor_sync(0xffffffffU, value, offset);
    }
    return value;
  }
}

constexpr std::int64_t kShortRow = 512;  // a warp's

/// The distances from the mean are squared, so nothing cancels.
template <int kWidth>
__global__ void __launch_bounds__(kThreads)
    layer_norm_forward_kernel(std::int64_t rows, std::int64_t columns, float epsilon,
                              LayerNormDivisor divisor, const float* bottom, const float* weight,
                              const float* bias, float* top, float* normalised, float* inverse) {
  constexpr int kRows = kThreads / kWidth;
  const unsigned lane = threadIdx.x % kWidth;
  for (std::int64_t row = static_cast<std::int64_t>(blockIdx.x) * kRows + threadIdx.x / kWidth;
       row < rows; row += static_cast<std::int64_t>(gridDim.x) * kRows) {
    const float* x = bottom + row * columns;
    float* kept = normalised + row * columns;
    double sum = 0;
    for (std::int64_t i = lane; i < columns; i += kWidth) sum += x[i];
    const auto mean = static_cast<float>(row_sum<kWidth>(sum) / static_cast<double>(columns));
    double squares = 0;
    for (std::int64_t i = lane; i < columns; i += kWidth) {
      const float distance = x[i] - mean;
      squares += static_cast<double>(distance) * distance;
    }
    const float factor =
        row_factor(row_sum<kWidth>(squares) / static_cast<double>(columns), epsilon, divisor);
    if (lane == 0) inverse[row] = factor;
    for (std::int64_t i = lane; i < columns; i += kWidth) {
      const float value = (x[i] - mean) * factor;
      kept[i] = value;
      top[row * columns + i] = weight == nullptr ? value : value * weight[i] + bias[i];
    }
  }
}

/// With g = dy * weight: dx = (g - mean(g) - normalised * mean(g * normalised)) * inverse.
template <int kWidth>
__global__ void __launch_bounds__(kThreads)
    layer_norm_backward_kernel(std::int64_t rows, std::int64_t columns, LayerNormDivisor divisor,
                               const float* normalised, const float* inverse, const float* weight,
                               const float* top_gradient, float* bottom_gradient) {
  constexpr int kRows = kThreads / kWidth;
  const unsigned lane = threadIdx.x % kWidth;
  for (std::int64_t row = static_cast<std::int64_t>(blockIdx.x) * kRows + threadIdx.x / kWidth;
       row < rows; row += static_cast<std::int64_t>(gridDim.x) * kRows) {
    const float* kept = normalised + row * columns;
    const float* dy = top_gradient + row * columns;
    double sum = 0;
    double along = 0;
    for (std::int64_t i = lane; i < columns; i += kWidth) {
      const float g = weight == nullptr ? dy[i] : dy[i] * weight[i];
      sum += g;
      along += static_cast<double>(g) * kept[i];
    }
    const auto mean = static_cast<float>(row_sum<kWidth>(sum) / static_cast<double>(columns));
    // Without the division nothing depends on the deviation.
    const auto total_along = row_sum<kWidth>(along);
    const auto mean_along = divisor == LayerNormDivisor::kOne
                                ? 0.0F
                                : static_cast<float>(total_along / static_cast<double>(columns));
    for (std::int64_t i = lane; i < columns; i += kWidth) {
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

/// The places around an element.
class Around {
 public:
  explicit Around(const LrnShape& shape)
      : shape_(shape),
        plane_(shape.h * shape.w),
        by_w_(shape.w, count()),
        by_h_(shape.h, count()),
        by_plane_(plane_, count()),
        by_c_(shape.c, count()) {}

  /// The sum of term(j) over the places j of the neighbourhood of element i.
  template <class Term>
  __device__ float sum(std::int64_t i, const Term& term) const {
    const std::int64_t half = shape_.size / 2;
    float sum = 0;
    if (shape_.within_channel) {
      const std::int64_t row = by_w_(i);
      const std::int64_t x = i - row * shape_.w;
      const std::int64_t y = row - by_h_(row) * shape_.h;
      const std::int64_t base = i - y * shape_.w - x;
      const Reach rows = reach_of(y, half, shape_.h);
      const Reach columns = reach_of(x, half, shape_.w);
      for (std::int64_t r = rows.begin; r < rows.end; ++r) {
        for (std::int64_t c = columns.begin; c < columns.end; ++c) {
          sum += term(base + r * shape_.w + c);
        }
      }
      return sum;
    }
    const std::int64_t image = by_plane_(i);
    const std::int64_t c = image - by_c_(image) * shape_.c;
    const std::int64_t base = i - c * plane_;
    const Reach channels = reach_of(c, half, shape_.c);
    for (std::int64_t k = channels.begin; k < channels.end; ++k) sum += term(base + k * plane_);
    return sum;
  }
  [[nodiscard]] std::int64_t count() const { return shape_.n * shape_.c * shape_.h * shape_.w; }

 private:
  LrnShape shape_;
  std::int64_t plane_;
  Divider by_w_;
  Divider by_h_;
  Divider by_plane_;
  Divider by_c_;
};

/// scale ^ -beta; the usual exponent costs two roots instead of a logarithm and an exponential.
__device__ float lowered(float scale, float beta) {
  if (beta == 0.75F) return rsqrtf(scale) * rsqrtf(sqrtf(scale));
  return powf(scale, -beta);
}

float share_of(const LrnShape& shape) {
  const auto size = static_cast<float>(shape.size);
  return shape.alpha / (shape.within_channel ? size * size : size);
}

}  // namespace

void layer_norm_forward(cudaStream_t stream, std::int64_t rows, std::int64_t columns, float epsilon,
                        LayerNormDivisor divisor, const float* bottom, const float* weight,
                        const float* bias, float* top, float* normalised, float* inverse) {
  if (columns <= kShortRow) {
    launch({stream, "layer_norm_forward", rows * columns, blocks_for(rows, kThreads / 32)},
           layer_norm_forward_kernel<32>, rows, columns, epsilon, divisor, bottom, weight, bias,
           top, normalised, inverse);
  } else {
    launch({stream, "layer_norm_forward", rows * columns, blocks_for(rows, 1)},
           layer_norm_forward_kernel<kThreads>, rows, columns, epsilon, divisor, bottom, weight,
           bias, top, normalised, inverse);
  }
}

void layer_norm_backward(cudaStream_t stream, std::int64_t rows, std::int64_t columns,
                         LayerNormDivisor divisor, const float* normalised, const float* inverse,
                         const float* weight, const float* top_gradient, float* bottom_gradient) {
  if (columns <= kShortRow) {
    launch({stream, "layer_norm_backward", rows * columns, blocks_for(rows, kThreads / 32)},
           layer_norm_backward_kernel<32>, rows, columns, divisor, normalised, inverse, weight,
           top_gradient, bottom_gradient);
  } else {
    launch({stream, "layer_norm_backward", rows * columns, blocks_for(rows, 1)},
           layer_norm_backward_kernel<kThreads>, rows, columns, divisor, normalised, inverse,
           weight, top_gradient, bottom_gradient);
  }
}

void lrn_forward(cudaStream_t stream, const LrnShape& shape, const float* bottom, float* scale,
                 float* top) {
  const float share = share_of(shape);
  const Around around(shape);
  each(stream, "lrn_forward", around.count(), [=] __device__(std::int64_t i) {
    const float squares = around.sum(i, [=](std::int64_t j) { return bottom[j] * bottom[j]; });
    const float sum = shape.k + share * squares;
    scale[i] = sum;
    top[i] = bottom[i] * lowered(sum, shape.beta);
  });
}

void lrn_backward(cudaStream_t stream, const LrnShape& shape, const float* bottom,
                  const float* scale, const float* top_gradient, float* ratio,
                  float* bottom_gradient) {
  const Around around(shape);
  each(stream, "lrn_backward ratios", around.count(), [=] __device__(std::int64_t i) {
    ratio[i] = top_gradient[i] * bottom[i] * lowered(scale[i], shape.beta) / scale[i];
  });
  const float factor = 2 * share_of(shape) * shape.beta;
  each(stream, "lrn_backward", around.count(), [=] __device__(std::int64_t i) {
    const float sum = around.sum(i, [=](std::int64_t j) { return ratio[j]; });
    bottom_gradient[i] = top_gradient[i] * lowered(scale[i], shape.beta) - factor * bottom[i] * sum;
  });
}

}  // namespace taut::cuda
