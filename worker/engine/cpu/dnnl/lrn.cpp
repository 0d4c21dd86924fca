#include <algorithm>
#include <utility>

#include "worker/engine/cpu/dnnl/engine.hpp"
#include "worker/engine/cpu/ops.hpp"

namespace taut::dnnl_cpu {
namespace {

class Lrn final : public LrnOp {
 public:
  explicit Lrn(const LrnSpec& spec) {
    const memory::desc images =
        plain({spec.shape.n, spec.shape.c, spec.shape.h, spec.shape.w}, Tag::nhwc);
    const auto algorithm = spec.region == LrnRegion::kAcrossChannels
                               ? dnnl::algorithm::lrn_across_channels
                               : dnnl::algorithm::lrn_within_channel;
    const auto training = dnnl::prop_kind::forward_training;
    const dnnl::memory::dim size = spec.size;
#if DNNL_VERSION_MAJOR >= 3
    const auto forward = describe<dnnl::lrn_forward>(cpu_engine(), training, algorithm, images,
                                                     images, size, spec.alpha, spec.beta, spec.k);
    const auto backward =
        describe_backward<dnnl::lrn_backward>(cpu_engine(), forward, algorithm, images, images,
                                              images, size, spec.alpha, spec.beta, spec.k);
#else
    const auto forward = describe<dnnl::lrn_forward>(cpu_engine(), training, algorithm, images,
                                                     size, spec.alpha, spec.beta, spec.k);
    const auto backward = describe_backward<dnnl::lrn_backward>(
        cpu_engine(), forward, algorithm, images, images, size, spec.alpha, spec.beta, spec.k);
#endif
    forward_ = {dnnl::lrn_forward(forward), forward.scratchpad_desc()};
    backward_ = {dnnl::lrn_backward(backward), backward.scratchpad_desc()};
    bottom_ = foreign(images);
    top_ = foreign(images);
    bottom_gradient_ = foreign(images);
    // Kept from forward to backward; some kernels need none.
    kept_ = cpu::OwnMemory(floats_of(forward.workspace_desc()));
    if (!kept_.empty()) workspace_ = foreign(forward.workspace_desc());
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
    Arguments arguments{{DNNL_ARG_SRC, bottom_}, {DNNL_ARG_DST, top_}};
    run(forward_, std::move(arguments));
  }

  void backward(Stream& stream, DeviceSpan<const float> bottom,
                DeviceSpan<const float> top_gradient, DeviceSpan<float> bottom_gradient) override {
    cpu::enter(stream);
    point(bottom_, bottom.address());
    point(top_, top_gradient.address());
    point(bottom_gradient_, bottom_gradient.address());
    Arguments arguments{
        {DNNL_ARG_SRC, bottom_}, {DNNL_ARG_DIFF_DST, top_}, {DNNL_ARG_DIFF_SRC, bottom_gradient_}};
    run(backward_, std::move(arguments));
  }

 private:
  void run(Prepared& what, Arguments arguments) {
    if (!kept_.empty()) {
      point(workspace_, kept_.data());
      arguments.emplace(DNNL_ARG_WORKSPACE, workspace_);
    }
    what.run(std::move(arguments));
  }

  Prepared forward_;
  Prepared backward_;
  memory bottom_;
  memory top_;
  memory bottom_gradient_;
  memory workspace_;
  cpu::OwnMemory kept_;
};

}  // namespace
}  // namespace taut::dnnl_cpu

namespace taut {

std::unique_ptr<LrnOp> cpu::make_op(const LrnSpec& spec) {
  return dnnl_cpu::built("local response normalization",
                         [&] { return std::make_unique<dnnl_cpu::Lrn>(spec); });
}

}  // namespace taut
