#include <algorithm>

#include "worker/engine/cpu/dnnl/engine.hpp"

namespace taut::dnnl_cpu {
namespace {

class MaxPooling final : public PoolingOp {
 public:
  explicit MaxPooling(const PoolingSpec& spec) {
    const auto& [bottom, top, window, method] = spec;
    const memory::desc source = plain({bottom.n, bottom.c, bottom.h, bottom.w}, Tag::nhwc);
    const memory::desc target = plain({top.n, top.c, top.h, top.w}, Tag::nhwc);
    const memory::dims strides{window.stride_h, window.stride_w};
    const memory::dims kernel{window.kernel_h, window.kernel_w};
    const memory::dims gaps{0, 0};
    const memory::dims front{window.pad_h, window.pad_w};
    // Caffe rounds up: padding at the end completes the last window.
    const memory::dims back{
        behind(bottom.h, top.h, window.kernel_h, window.stride_h, window.pad_h),
        behind(bottom.w, top.w, window.kernel_w, window.stride_w, window.pad_w)};
    const auto algorithm = dnnl::algorithm::pooling_max;
    const auto forward =
        describe<PoolingForward>(cpu_engine(), dnnl::prop_kind::forward_training, algorithm, source,
                                 target, strides, kernel, gaps, front, back);
    const auto backward = describe_backward<PoolingBackward>(
        cpu_engine(), forward, algorithm, source, target, strides, kernel, gaps, front, back);
    forward_ = {PoolingForward(forward), forward.scratchpad_desc()};
    backward_ = {PoolingBackward(backward), backward.scratchpad_desc()};
    bottom_ = foreign(source);
    top_ = foreign(target);
    chosen_ = foreign(forward.workspace_desc());
    kept_ = cpu::OwnMemory(floats_of(forward.workspace_desc()));
  }

  OpMemory own_memory() const override {
    return {cpu::bytes_of({&kept_}),
            std::max(cpu::bytes_of({&forward_.scratch()}), cpu::bytes_of({&backward_.scratch()}))};
  }
  void lend(DeviceSpan<float> kept, DeviceSpan<float> scratch) override {
    cpu::lend_in_turn(kept, {&kept_});
    cpu::lend_in_turn(scratch, {&forward_.scratch()});
    cpu::lend_in_turn(scratch, {&backward_.scratch()});
  }

  void forward(Stream& stream, DeviceSpan<const float> bottom, DeviceSpan<float> top) override {
    cpu::enter(stream);
    point(bottom_, bottom.address());
    point(top_, top.address());
    point(chosen_, kept_.data());
    forward_.run({{DNNL_ARG_SRC, bottom_}, {DNNL_ARG_DST, top_}, {DNNL_ARG_WORKSPACE, chosen_}});
  }

  void backward(Stream& stream, DeviceSpan<const float> top_gradient,
                DeviceSpan<float> bottom_gradient) override {
    cpu::enter(stream);
    point(top_, top_gradient.address());
    point(bottom_, bottom_gradient.address());
    point(chosen_, kept_.data());
    backward_.run(
        {{DNNL_ARG_DIFF_DST, top_}, {DNNL_ARG_DIFF_SRC, bottom_}, {DNNL_ARG_WORKSPACE, chosen_}});
  }

 private:
  static std::int64_t behind(std::int64_t bottom, std::int64_t top, std::int64_t kernel,
                             std::int64_t stride, std::int64_t front) {
    return std::max<std::int64_t>((top - 1) * stride + kernel - bottom - front, 0);
  }

  Prepared forward_;
  Prepared backward_;
  memory bottom_;
  memory top_;
  memory chosen_;  // the index of each window's largest element
  cpu::OwnMemory kept_;
};

}  // namespace

std::unique_ptr<PoolingOp> make_max_pooling(const PoolingSpec& spec) {
  return built("max pooling", [&] { return std::make_unique<MaxPooling>(spec); });
}

}  // namespace taut::dnnl_cpu
