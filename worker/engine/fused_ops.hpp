#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <string_view>

#include "worker/engine/backend.hpp"

// Operations that compute several layers at once, so that the values between them are neither
// written nor read back. A backend has all of them or none.
namespace taut {

struct ScaledBatchNormSpec {
  using Op = class ScaledBatchNormOp;
  Extents shape;  // channels along axis 1
  float epsilon = 1e-5F;
  bool relu = false;
};

/// A BatchNorm with the batch's statistics, a Scale of its channels, and a ReLU if the spec has
/// one: normalised = (bottom - mean) / sqrt(variance + epsilon), top = normalised * factors +
/// summands. Backward computes the normalised values again: the bottom must keep its values.
class ScaledBatchNormOp : public DeviceOp {
 public:
  static constexpr std::string_view kName = "scaled batch normalisation";
  /// summands        [channels]; empty: zeros
  /// mean, variance  [channels], written; the variance is the batch's, divided by its count
  virtual void forward(Stream&, DeviceSpan<const float> bottom, DeviceSpan<const float> factors,
                       DeviceSpan<const float> summands, DeviceSpan<float> top,
                       DeviceSpan<float> mean, DeviceSpan<float> variance) = 0;
  /// Follows a forward. An empty gradient is not computed.
  virtual void backward(Stream&, DeviceSpan<const float> bottom, DeviceSpan<const float> factors,
                        DeviceSpan<const float> summands, DeviceSpan<const float> top_gradient,
                        DeviceSpan<float> bottom_gradient, DeviceSpan<float> factors_gradient,
                        DeviceSpan<float> summands_gradient) = 0;
};

struct RunningStatisticsSpec {
  using Op = class RunningStatisticsOp;
  std::int64_t channels = 0;
  float fraction = 0.999F;  // the fraction of a sum that is kept
  float unbiased = 1;       // the factor of the newest variance
};

/// A BatchNorm's running sums with the newest statistics: fraction * sum + newest. The weights'
/// newest is 1.
class RunningStatisticsOp : public DeviceOp {
 public:
  static constexpr std::string_view kName = "running statistics";
  /// An empty sum is not computed.
  virtual void backward(Stream&, DeviceSpan<const float> mean, DeviceSpan<const float> variance,
                        DeviceSpan<const float> mean_sum, DeviceSpan<const float> variance_sum,
                        DeviceSpan<const float> weight_sum, DeviceSpan<float> next_mean_sum,
                        DeviceSpan<float> next_variance_sum, DeviceSpan<float> next_weight_sum) = 0;
};

/// A convolution followed by a ReLU. Its gradients are the convolution's alone.
struct RectifiedConvolutionSpec {
  using Op = LinearOp;
  ConvolutionSpec convolution;
};

struct RectifiedSumSpec {
  using Op = class RectifiedSumOp;
  std::array<float, 2> factors{1, 1};
};

/// A weighted sum of two tensors followed by a ReLU.
class RectifiedSumOp : public DeviceOp {
 public:
  static constexpr std::string_view kName = "rectified sum";
  virtual void forward(Stream&, DeviceSpan<const float> first, DeviceSpan<const float> second,
                       DeviceSpan<float> top) = 0;
  /// An empty gradient is not computed. Only the sign of the top is read.
  virtual void backward(Stream&, DeviceSpan<const float> top, DeviceSpan<const float> top_gradient,
                        DeviceSpan<float> first_gradient, DeviceSpan<float> second_gradient) = 0;
};

#define TAUT_EACH_FUSED_SPEC(X) \
  X(ScaledBatchNormSpec)        \
  X(RunningStatisticsSpec)      \
  X(RectifiedConvolutionSpec)   \
  X(RectifiedSumSpec)

/// A backend that may have these operations.
/// Thread    any
class FusingBackend {
 public:
  FusingBackend() = default;
  FusingBackend(const FusingBackend&) = delete;
  FusingBackend& operator=(const FusingBackend&) = delete;
  virtual ~FusingBackend() = default;

  [[nodiscard]] virtual bool fuses() const = 0;
  // REQUIRES, for all: the backend has them. Errors: as Backend::make's.
#define TAUT_DECLARE_FUSED(Spec) \
  [[nodiscard]] virtual std::unique_ptr<Spec::Op> make_fused(const Spec& spec) = 0;
  TAUT_EACH_FUSED_SPEC(TAUT_DECLARE_FUSED)
#undef TAUT_DECLARE_FUSED
};

/// nullptr if the backend has none of these operations.
[[nodiscard]] inline FusingBackend* fusing(Backend& backend) {
  auto* const one = dynamic_cast<FusingBackend*>(&backend);
  return one != nullptr && one->fuses() ? one : nullptr;
}

}  // namespace taut
