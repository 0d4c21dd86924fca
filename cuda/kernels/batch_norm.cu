#include "cuda/kernels/batch_norm.hpp"

#include "common/math/activation.hpp"
#include "cuda/kernels/along.cuh"
#include "cuda/kernels/reduce.cuh"

namespace taut::cuda {
namespace {

__device__ float normalised(const ScaledBatchNorm& numbers, std::int64_t k, float x) {
  return (x - numbers.shift[k]) * numbers.factor[k];
}

/// By fmaf, so that the backward pass gets the forward's bits, and with them its ReLU's sign.
__device__ float scaled(const ScaledBatchNorm& numbers, std::int64_t k, float normal) {
  return fmaf(normal, numbers.factors[k], numbers.summands == nullptr ? 0.0F : numbers.summands[k]);
}

/// The gradient in front of the ReLU.
__device__ float through_relu(const ScaledBatchNorm& numbers, std::int64_t k, float normal,
                              float dy) {
  return numbers.relu ? dy * math::Relu{0}.slope(scaled(numbers, k, normal)) : dy;
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
        factor[k] = inverse_deviation(spread, epsilon);
      });
}

void batch_norm_kept(cudaStream_t stream, std::int64_t channels, const float* mean,
                     const float* variance, const float* weight, float epsilon, float* shift,
                     float* factor) {
  each(stream, "batch_norm_kept", channels, [=] __device__(std::int64_t k) {
    const double share = *weight == 0 ? 0 : 1 / static_cast<double>(*weight);
    shift[k] = static_cast<float>(share * mean[k]);
    factor[k] = inverse_deviation(share * variance[k], epsilon);
  });
}

void batch_norm_normalize(cudaStream_t stream, const AxisView& view, const float* bottom,
                          const float* shift, const float* factor, float* top) {
  map_along<1>(stream, "batch_norm_normalize", view, {{bottom}}, top,
               [=] __device__(std::int64_t k, float x) { return (x - shift[k]) * factor[k]; });
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
  if (mean == nullptr) {
    map_along<1>(stream, "batch_norm_backward", view, {{top_gradient}}, bottom_gradient,
                 [=] __device__(std::int64_t k, float dy) { return factor[k] * dy; });
    return;
  }
  map_along<2>(stream, "batch_norm_backward", view, {{top, top_gradient}}, bottom_gradient,
               [=] __device__(std::int64_t k, float y, float dy) {
                 return factor[k] * (dy - mean[k] - y * slope[k]);
               });
}

void scaled_batch_norm_forward(cudaStream_t stream, const AxisView& view,
                               const ScaledBatchNorm& numbers, const float* bottom, float* top) {
  map_along<1>(stream, "scaled_batch_norm_forward", view, {{bottom}}, top,
               [=] __device__(std::int64_t k, float x) {
                 const float y = scaled(numbers, k, normalised(numbers, k, x));
                 return numbers.relu ? math::Relu{0}.value(y) : y;
               });
}

void scaled_batch_norm_sums(cudaStream_t stream, const AxisView& view,
                            const ScaledBatchNorm& numbers, const float* bottom,
                            const float* top_gradient, float* factors_gradient,
                            float* summands_gradient, float* mean, float* slope, void* scratch) {
  const auto count = static_cast<double>(view.positions());
  reduce(
      stream, "scaled_batch_norm_sums", view, scratch,
      [=] __device__(std::int64_t i, std::int64_t k, double& first, double& second) {
        const float normal = normalised(numbers, k, bottom[i]);
        const double dy = through_relu(numbers, k, normal, top_gradient[i]);
        first += dy;
        second += dy * normal;
      },
      [=] __device__(std::int64_t k, const Sums& total) {
        if (summands_gradient != nullptr) summands_gradient[k] = static_cast<float>(total.first);
        if (factors_gradient != nullptr) factors_gradient[k] = static_cast<float>(total.second);
        const double share = numbers.factors[k] / count;
        mean[k] = static_cast<float>(share * total.first);
        slope[k] = static_cast<float>(share * total.second);
      });
}

void scaled_batch_norm_backward(cudaStream_t stream, const AxisView& view,
                                const ScaledBatchNorm& numbers, const float* bottom,
                                const float* top_gradient, const float* mean, const float* slope,
                                float* bottom_gradient) {
  map_along<2>(stream, "scaled_batch_norm_backward", view, {{bottom, top_gradient}},
               bottom_gradient, [=] __device__(std::int64_t k, float x, float dy) {
                 const float normal = normalised(numbers, k, x);
                 const float g = through_relu(numbers, k, normal, dy) * numbers.factors[k];
                 return numbers.factor[k] * (g - mean[k] - normal * slope[k]);
               });
}

void running_statistics(cudaStream_t stream, std::int64_t channels, float fraction, float unbiased,
                        const RunningStatistics& sums) {
  each(stream, "running_statistics", channels, [=] __device__(std::int64_t k) {
    if (sums.next_mean_sum != nullptr) {
      sums.next_mean_sum[k] = fraction * sums.mean_sum[k] + sums.mean[k];
    }
    if (sums.next_variance_sum != nullptr) {
      sums.next_variance_sum[k] = fraction * sums.variance_sum[k] + unbiased * sums.variance[k];
    }
    if (sums.next_weight_sum != nullptr && k == 0) {
      *sums.next_weight_sum = fraction * *sums.weight_sum + 1;
    }
  });
}

}  // namespace taut::cuda
