#include "cuda/kernels/normalize.hpp"

#include "cuda/kernels/batch_norm.hpp"
#include "cuda/kernels/reduce.hpp"
#include "worker/engine/cuda/ops.hpp"
#include "worker/engine/cuda/own_memory.hpp"
#include "worker/engine/cuda/stream.hpp"

namespace taut::cuda_ops {
namespace {

class BatchNorm final : public BatchNormOp {
 public:
  BatchNorm(CudaDevice& device, const BatchNormSpec& spec)
      : epsilon_(spec.epsilon),
        view_(view_along(spec.shape, 1)),
        numbers_(device, 4 * view_.length, "a batch normalization's statistics") {}

  OpMemory own_memory() const override { return {bytes_of({&numbers_}), {}}; }
  void lend(DeviceSpan<float> kept, DeviceSpan<float>) override { lend_in_turn(kept, {&numbers_}); }

  void forward(Stream& stream, DeviceSpan<const float> bottom, DeviceSpan<float> top,
               DeviceSpan<float> mean, DeviceSpan<float> variance) override {
    CudaStream& own = on(stream);
    const auto [scratch] = own.scratch<1>({cuda::reduce_scratch(view_)});
    cuda::batch_norm_statistics(own.enter(), view_, bottom.address(), epsilon_, mean.address(),
                                variance.address(), shift(), factor(), scratch);
    cuda::batch_norm_normalize(own.enter(), view_, bottom.address(), shift(), factor(),
                               top.address());
  }
  void backward(Stream& stream, DeviceSpan<const float> top, DeviceSpan<const float> top_gradient,
                DeviceSpan<float> bottom_gradient) override {
    CudaStream& own = on(stream);
    const auto [scratch] = own.scratch<1>({cuda::reduce_scratch(view_)});
    cuda::batch_norm_slopes(own.enter(), view_, top.address(), top_gradient.address(), mean(),
                            slope(), scratch);
    cuda::batch_norm_backward(own.enter(), view_, top.address(), top_gradient.address(), factor(),
                              mean(), slope(), bottom_gradient.address());
  }
  void forward_kept(Stream& stream, DeviceSpan<const float> bottom, DeviceSpan<const float> mean,
                    DeviceSpan<const float> variance, DeviceSpan<const float> weight,
                    DeviceSpan<float> top) override {
    cudaStream_t queue = on(stream).enter();
    cuda::batch_norm_kept(queue, view_.length, mean.address(), variance.address(), weight.address(),
                          epsilon_, shift(), factor());
    cuda::batch_norm_normalize(queue, view_, bottom.address(), shift(), factor(), top.address());
  }
  void backward_kept(Stream& stream, DeviceSpan<const float> top_gradient,
                     DeviceSpan<float> bottom_gradient) override {
    cuda::batch_norm_backward(on(stream).enter(), view_, nullptr, top_gradient.address(), factor(),
                              nullptr, nullptr, bottom_gradient.address());
  }

 private:
  [[nodiscard]] float* part(std::int64_t index) const {
    return numbers_.floats() + index * view_.length;
  }
  [[nodiscard]] float* shift() const { return part(0); }
  [[nodiscard]] float* factor() const { return part(1); }
  [[nodiscard]] float* mean() const { return part(2); }
  [[nodiscard]] float* slope() const { return part(3); }

  float epsilon_;
  cuda::AxisView view_;
  OwnMemory numbers_;  // four of [channels]
};

cuda::LayerNormDivisor divisor_of(const LayerNormSpec& spec) {
  switch (spec.divisor) {
    case RowDivisor::kSumOfRoot:
      return cuda::LayerNormDivisor::kSumOfRoot;
    case RowDivisor::kOne:
      return cuda::LayerNormDivisor::kOne;
    case RowDivisor::kRootOfSum:
      break;
  }
  return cuda::LayerNormDivisor::kRootOfSum;
}

/// Keeps the normalised rows for the backward pass, as the CPU's does.
class LayerNorm final : public LayerNormOp {
 public:
  LayerNorm(CudaDevice& device, const LayerNormSpec& spec)
      : spec_(spec),
        columns_{.outer = spec.rows, .length = spec.columns, .inner = 1},
        normalised_(device, spec.rows * spec.columns, "a layer normalization"),
        inverse_(device, spec.rows, "a layer normalization") {}

  OpMemory own_memory() const override { return {bytes_of({&normalised_, &inverse_}), {}}; }
  void lend(DeviceSpan<float> kept, DeviceSpan<float>) override {
    lend_in_turn(kept, {&normalised_, &inverse_});
  }

  void forward(Stream& stream, DeviceSpan<const float> bottom, DeviceSpan<const float> weight,
               DeviceSpan<const float> bias, DeviceSpan<float> top) override {
    cuda::layer_norm_forward(on(stream).enter(), spec_.rows, spec_.columns, spec_.epsilon,
                             divisor_of(spec_), bottom.address(), weight.address(), bias.address(),
                             top.address(), normalised_.floats(), inverse_.floats());
  }

  void backward(Stream& stream, DeviceSpan<const float>, DeviceSpan<const float> weight,
                DeviceSpan<const float> top_gradient, DeviceSpan<float> weight_gradient,
                DeviceSpan<float> bias_gradient, DeviceSpan<float> bottom_gradient) override {
    CudaStream& own = on(stream);
    if (!weight_gradient.empty() || !bias_gradient.empty()) {
      const auto [scratch] = own.scratch<1>({cuda::reduce_scratch(columns_)});
      cuda::affine_parameter_gradients(own.enter(), columns_, normalised_.floats(),
                                       top_gradient.address(), weight_gradient.address(),
                                       bias_gradient.address(), scratch);
    }
    if (bottom_gradient.empty()) return;
    cuda::layer_norm_backward(own.enter(), spec_.rows, spec_.columns, divisor_of(spec_),
                              normalised_.floats(), inverse_.floats(), weight.address(),
                              top_gradient.address(), bottom_gradient.address());
  }

 private:
  LayerNormSpec spec_;
  cuda::AxisView columns_;
  OwnMemory normalised_;
  OwnMemory inverse_;  // 1 / deviation, of each row
};

class Lrn final : public LrnOp {
 public:
  Lrn(CudaDevice& device, const LrnSpec& spec)
      : shape_{.n = spec.shape.n,
               .c = spec.shape.c,
               .h = spec.shape.h,
               .w = spec.shape.w,
               .size = spec.size,
               .within_channel = spec.region == LrnRegion::kWithinChannel,
               .alpha = spec.alpha,
               .beta = spec.beta,
               .k = spec.k},
        scale_(device, static_cast<std::int64_t>(spec.shape.count()),
               "a local response normalization") {}

  OpMemory own_memory() const override { return {bytes_of({&scale_}), bytes_of({&scale_})}; }
  void lend(DeviceSpan<float> kept, DeviceSpan<float> scratch) override {
    lend_in_turn(kept, {&scale_});
    lent_ = scratch;
  }

  void forward(Stream& stream, DeviceSpan<const float> bottom, DeviceSpan<float> top) override {
    cuda::lrn_forward(on(stream).enter(), shape_, bottom.address(), scale_.floats(), top.address());
  }
  void backward(Stream& stream, DeviceSpan<const float> bottom,
                DeviceSpan<const float> top_gradient, DeviceSpan<float> bottom_gradient) override {
    CudaStream& own = on(stream);
    const auto [ratio] = own.scratch<1>({scale_.span().size_bytes().value()}, lent_);
    cuda::lrn_backward(own.enter(), shape_, bottom.address(), scale_.floats(),
                       top_gradient.address(), static_cast<float*>(ratio),
                       bottom_gradient.address());
  }

 private:
  cuda::LrnShape shape_;
  OwnMemory scale_;  // of the last forward
  DeviceSpan<float> lent_;
};

}  // namespace

std::unique_ptr<BatchNormOp> make_op(CudaDevice& device, const BatchNormSpec& spec) {
  return std::make_unique<BatchNorm>(device, spec);
}
std::unique_ptr<LayerNormOp> make_op(CudaDevice& device, const LayerNormSpec& spec) {
  return std::make_unique<LayerNorm>(device, spec);
}
std::unique_ptr<LrnOp> make_op(CudaDevice& device, const LrnSpec& spec) {
  return std::make_unique<Lrn>(device, spec);
}

}  // namespace taut::cuda_ops
