#include "cuda/kernels/pooling.hpp"

#include <limits>
#include <stdexcept>

#include "worker/backend/cuda_ops.hpp"
#include "worker/backend/cuda_own_memory.hpp"
#include "worker/backend/cuda_stream.hpp"

namespace taut::cuda_ops {
namespace {

cuda::PoolShape shape_of(const PoolingSpec& spec) {
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

}  // namespace

std::unique_ptr<PoolingOp> make_pooling(CudaDevice& device, const PoolingSpec& spec) {
  if (spec.method == PoolingMethod::kMax) return std::make_unique<MaxPooling>(device, spec);
  return std::make_unique<AveragePooling>(spec);
}

}  // namespace taut::cuda_ops
