#include "cuda/kernels/pooling.hpp"

#include <limits>
#include <stdexcept>

#include "common/check.hpp"
#include "common/math/philox.hpp"
#include "worker/engine/cuda/ops.hpp"
#include "worker/engine/cuda/own_memory.hpp"
#include "worker/engine/cuda/stream.hpp"

namespace taut::cuda_ops {
namespace {

template <class Spec>
cuda::PoolShape shape_of(const Spec& spec) {
  if (spec.bottom.h * spec.bottom.w > std::numeric_limits<std::int32_t>::max()) {
    throw std::invalid_argument("pooling: an image of 2^31 pixels or more");
  }
  return {.planes = spec.bottom.n * spec.bottom.c,
          .h = spec.bottom.h,
          .w = spec.bottom.w,
          .top_h = spec.top.h,
          .top_w = spec.top.w,
          .kernel_h = spec.window.kernel_h,
          .kernel_w = spec.window.kernel_w,
          .stride_h = spec.window.stride_h,
          .stride_w = spec.window.stride_w,
          .pad_h = spec.window.pad_h,
          .pad_w = spec.window.pad_w};
}

class MaxPooling final : public PoolingOp {
 public:
  MaxPooling(CudaDevice& device, const PoolingSpec& spec)
      : shape_(shape_of(spec)),
        chosen_(device, static_cast<std::int64_t>(spec.top.count()),
                "a maximum pooling's choices") {}

  OpMemory own_memory() const override { return {bytes_of({&chosen_}), {}}; }
  void lend(DeviceSpan<float> kept, DeviceSpan<float>) override { lend_in_turn(kept, {&chosen_}); }

  void forward(Stream& stream, DeviceSpan<const float> bottom, DeviceSpan<float> top) override {
    cuda::max_pool_forward(on(stream).enter(), shape_, bottom.address(), top.address(),
                           chosen_.integers());
  }
  void backward(Stream& stream, DeviceSpan<const float> top_gradient,
                DeviceSpan<float> bottom_gradient) override {
    cuda::max_pool_backward(on(stream).enter(), shape_, chosen_.integers(), top_gradient.address(),
                            bottom_gradient.address());
  }

 private:
  cuda::PoolShape shape_;
  OwnMemory chosen_;  // of the last forward
};

class AveragePooling final : public PoolingOp {
 public:
  explicit AveragePooling(const PoolingSpec& spec) : shape_(shape_of(spec)) {}

  void forward(Stream& stream, DeviceSpan<const float> bottom, DeviceSpan<float> top) override {
    cuda::average_pool_forward(on(stream).enter(), shape_, bottom.address(), top.address());
  }
  void backward(Stream& stream, DeviceSpan<const float> top_gradient,
                DeviceSpan<float> bottom_gradient) override {
    cuda::average_pool_backward(on(stream).enter(), shape_, top_gradient.address(),
                                bottom_gradient.address());
  }

 private:
  cuda::PoolShape shape_;
};

class StochasticPooling final : public StochasticPoolingOp {
 public:
  StochasticPooling(CudaDevice& device, const StochasticPoolingSpec& spec)
      : shape_(shape_of(spec)),
        draw_{.key = spec.seed ^ math::name_stream("stochastic pooling", 18),
              .stream = std::uint64_t{spec.slot} << 32U | spec.layer},
        training_(spec.training),
        chosen_(device, spec.training ? static_cast<std::int64_t>(spec.top.count()) : 0,
                "a stochastic pooling's choices") {}

  OpMemory own_memory() const override { return {bytes_of({&chosen_}), {}}; }
  void lend(DeviceSpan<float> kept, DeviceSpan<float>) override { lend_in_turn(kept, {&chosen_}); }

  void forward(Stream& stream, Clock clock, DeviceSpan<const float> bottom,
               DeviceSpan<float> top) override {
    if (!training_) {
      cuda::weighed_pool_forward(on(stream).enter(), shape_, bottom.address(), top.address());
      return;
    }
    const std::int64_t* at = on(stream).clock_at(clock);
    cuda::stochastic_pool_forward(on(stream).enter(), shape_, draw_, at, bottom.address(),
                                  top.address(), chosen_.integers());
  }
  void backward(Stream& stream, DeviceSpan<const float> top_gradient,
                DeviceSpan<float> bottom_gradient) override {
    TAUT_CHECK(training_, "stochastic pooling has a gradient in training only");
    cuda::max_pool_backward(on(stream).enter(), shape_, chosen_.integers(), top_gradient.address(),
                            bottom_gradient.address());
  }

 private:
  cuda::PoolShape shape_;
  cuda::PoolDraw draw_;
  bool training_;
  OwnMemory chosen_;  // of the last forward
};

}  // namespace

std::unique_ptr<StochasticPoolingOp> make_op(CudaDevice& device,
                                             const StochasticPoolingSpec& spec) {
  return std::make_unique<StochasticPooling>(device, spec);
}

std::unique_ptr<PoolingOp> make_op(CudaDevice& device, const PoolingSpec& spec) {
  if (spec.method == PoolingMethod::kMax) return std::make_unique<MaxPooling>(device, spec);
  return std::make_unique<AveragePooling>(spec);
}

}  // namespace taut::cuda_ops
