#include "worker/engine/cuda/fused.hpp"
#include "common/check.hpp"
#include "cuda/kernels/batch_norm.hpp"
#include "worker/engine/cuda/own_memory.hpp"
#include "worker/engine/cuda/stream.hpp"

namespace taut::cuda_ops {
namespace {

/// Two kernels in each direction, with a third one where a channel's sum is divided among blocks.
class ScaledBatchNorm final : public ScaledBatchNormOp {
 public:
  ScaledBatchNorm(CudaDevice& device, const ScaledBatchNormSpec& spec)
      : spec_(spec),
        view_(view_along(spec.shape, 1)),
        numbers_(device, 4 * view_.length, "a batch normalization's statistics") {}

  OpMemory own_memory() const override { return {bytes_of({&numbers_}), {}}; }
  void lend(DeviceSpan<float> kept, DeviceSpan<float>) override { lend_in_turn(kept, {&numbers_}); }

  void forward(Stream& stream, DeviceSpan<const float> bottom, DeviceSpan<const float> factors,
               DeviceSpan<const float> summands, DeviceSpan<float> top, DeviceSpan<float> mean,
               DeviceSpan<float> variance) override {
    CudaStream& own = on(stream);
    const auto [scratch] = own.scratch<1>({cuda::reduce_scratch(view_)});
    cuda::batch_norm_statistics(own.enter(), view_, bottom.address(), spec_.epsilon, mean.address(),
                                variance.address(), part(0), part(1), scratch);
    cuda::scaled_batch_norm_forward(own.enter(), view_, numbers(factors, summands),
                                    bottom.address(), top.address());
  }

  void backward(Stream& stream, DeviceSpan<const float> bottom, DeviceSpan<const float> factors,
                DeviceSpan<const float> summands, DeviceSpan<const float> top_gradient,
                DeviceSpan<float> bottom_gradient, DeviceSpan<float> factors_gradient,
                DeviceSpan<float> summands_gradient) override {
    CudaStream& own = on(stream);
    const auto [scratch] = own.scratch<1>({cuda::reduce_scratch(view_)});
    cuda::scaled_batch_norm_sums(own.enter(), view_, numbers(factors, summands), bottom.address(),
                                 top_gradient.address(), factors_gradient.address(),
                                 summands_gradient.address(), part(2), part(3), scratch);
    if (bottom_gradient.empty()) return;
    cuda::scaled_batch_norm_backward(own.enter(), view_, numbers(factors, summands),
                                     bottom.address(), top_gradient.address(), part(2), part(3),
                                     bottom_gradient.address());
  }

 private:
  /// The mean and the inverse deviation; the two means of the backward pass.
  [[nodiscard]] float* part(std::int64_t index) const {
    return numbers_.floats() + index * view_.length;
  }
  [[nodiscard]] cuda::ScaledBatchNorm numbers(DeviceSpan<const float> factors,
                                              DeviceSpan<const float> summands) const {
    return {.shift = part(0),
            .factor = part(1),
            .factors = factors.address(),
            .summands = summands.address(),
            .relu = spec_.relu};
  }

  ScaledBatchNormSpec spec_;
  cuda::AxisView view_;
  OwnMemory numbers_;  // four of [channels]
};

class RunningStatistics final : public RunningStatisticsOp {
 public:
  explicit RunningStatistics(const RunningStatisticsSpec& spec) : spec_(spec) {}

  void backward(Stream& stream, DeviceSpan<const float> mean, DeviceSpan<const float> variance,
                DeviceSpan<const float> mean_sum, DeviceSpan<const float> variance_sum,
                DeviceSpan<const float> weight_sum, DeviceSpan<float> next_mean_sum,
                DeviceSpan<float> next_variance_sum, DeviceSpan<float> next_weight_sum) override {
    cuda::running_statistics(on(stream).enter(), spec_.channels, spec_.fraction, spec_.unbiased,
                             {.mean_sum = mean_sum.address(),
                              .variance_sum = variance_sum.address(),
                              .weight_sum = weight_sum.address(),
                              .mean = mean.address(),
                              .variance = variance.address(),
                              .next_mean_sum = next_mean_sum.address(),
                              .next_variance_sum = next_variance_sum.address(),
                              .next_weight_sum = next_weight_sum.address()});
  }

 private:
  RunningStatisticsSpec spec_;
};

class RectifiedSum final : public RectifiedSumOp {
 public:
  explicit RectifiedSum(const RectifiedSumSpec& spec) : factors_(spec.factors) {}

  void forward(Stream& stream, DeviceSpan<const float> first, DeviceSpan<const float> second,
               DeviceSpan<float> top) override {
    TAUT_CHECK(first.size() == top.size() && second.size() == top.size(),
               "a sum of different sizes");
    const cuda::Scaled terms[]{{first.address(), factors_[0]}, {second.address(), factors_[1]}};
    cuda::weighted_sum(on(stream).enter(), terms, top.address(), count_of(top), true);
  }
  void backward(Stream& stream, DeviceSpan<const float> top, DeviceSpan<const float> top_gradient,
                DeviceSpan<float> first_gradient, DeviceSpan<float> second_gradient) override {
    cuda::rectified_sum_backward(on(stream).enter(), top.address(), top_gradient.address(),
                                 {first_gradient.address(), factors_[0]},
                                 {second_gradient.address(), factors_[1]}, count_of(top));
  }

 private:
  std::array<float, 2> factors_;
};

}  // namespace

std::unique_ptr<ScaledBatchNormOp> make_op(CudaDevice& device, const ScaledBatchNormSpec& spec) {
  return std::make_unique<ScaledBatchNorm>(device, spec);
}
std::unique_ptr<RunningStatisticsOp> make_op(CudaDevice&, const RunningStatisticsSpec& spec) {
  return std::make_unique<RunningStatistics>(spec);
}
std::unique_ptr<RectifiedSumOp> make_op(CudaDevice&, const RectifiedSumSpec& spec) {
  return std::make_unique<RectifiedSum>(spec);
}

}  // namespace taut::cuda_ops
