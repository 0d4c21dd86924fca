#include "worker/backend/cpu_dnnl_engine.hpp"

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
    forward_ = dnnl::lrn_forward(forward);
    backward_ = dnnl::lrn_backward(backward);
    bottom_ = foreign(images);
    top_ = foreign(images);
    bottom_gradient_ = foreign(images);
    // Kept from forward to backward; some kernels want none.
    if (forward.workspace_desc().get_size() > 0) {
      kept_ = memory(forward.workspace_desc(), cpu_engine());
    }
  }

  void forward(Stream& stream, DeviceSpan<const float> bottom, DeviceSpan<float> top) override {
    cpu::enter(stream);
    point(bottom_, bottom.address());
    point(top_, top.address());
    Arguments arguments{{DNNL_ARG_SRC, bottom_}, {DNNL_ARG_DST, top_}};
    if (kept_) arguments.emplace(DNNL_ARG_WORKSPACE, kept_);
    execute(forward_, arguments);
  }

  void backward(Stream& stream, DeviceSpan<const float> bottom,
                DeviceSpan<const float> top_gradient, DeviceSpan<float> bottom_gradient) override {
    cpu::enter(stream);
    point(bottom_, bottom.address());
    point(top_, top_gradient.address());
    point(bottom_gradient_, bottom_gradient.address());
    Arguments arguments{
        {DNNL_ARG_SRC, bottom_}, {DNNL_ARG_DIFF_DST, top_}, {DNNL_ARG_DIFF_SRC, bottom_gradient_}};
    if (kept_) arguments.emplace(DNNL_ARG_WORKSPACE, kept_);
    execute(backward_, arguments);
  }

 private:
  primitive forward_;
  primitive backward_;
  memory bottom_;
  memory top_;
  memory bottom_gradient_;
  memory kept_;
};

}  // namespace

std::unique_ptr<LrnOp> make_lrn(const LrnSpec& spec) {
  return built("local response normalization", [&] { return std::make_unique<Lrn>(spec); });
}

}  // namespace taut::dnnl_cpu
