#include <optional>
#include <utility>
#include <vector>

#include "worker/backend/cpu_dnnl_engine.hpp"

namespace taut::dnnl_cpu {
namespace {

/// A parameter that the caller keeps in Caffe's order and a primitive may want in its own.
class Parameter {
 public:
  Parameter(const memory::desc& callers, const memory::desc& primitives)
      : callers_(foreign(callers)) {
    if (callers == primitives) return;
    own_ = memory(primitives, cpu_engine());
    load_ = dnnl::reorder(callers_, own_);
    store_ = dnnl::reorder(own_, callers_);
  }

  /// The caller's values, ready to be read.
  const memory& loaded(const float* values) {
    point(callers_, values);
    if (!own_) return callers_;
    execute(load_, {{DNNL_ARG_FROM, callers_}, {DNNL_ARG_TO, own_}});
    return own_;
  }
  /// Where the primitive writes; store() then brings it to the caller.
  const memory& target(float* values) {
    point(callers_, values);
    return own_ ? own_ : callers_;
  }
  void store() {
    if (own_) execute(store_, {{DNNL_ARG_FROM, own_}, {DNNL_ARG_TO, callers_}});
  }

 private:
  memory callers_;
  memory own_;
  dnnl::reorder load_;
  dnnl::reorder store_;
};

class Convolution final : public LinearOp {
 public:
  explicit Convolution(const ConvolutionSpec& spec) : spec_(spec) {
    const auto& [bottom, top, rows, window, group, has_bias, bottom_gradient] = spec;
    const memory::desc source = plain({bottom.n, bottom.c, bottom.h, bottom.w}, Tag::nhwc);
    const memory::desc target = plain({top.n, top.c, top.h, top.w}, Tag::nhwc);
    const memory::desc bias = has_bias ? plain({top.c}, Tag::x) : memory::desc();
    const memory::dims weight_dims =
        group == 1 ? memory::dims{top.c, bottom.c, window.kernel_h, window.kernel_w}
                   : memory::dims{group, top.c / group, bottom.c / group, window.kernel_h,
                                  window.kernel_w};
    const memory::desc weights = plain(weight_dims, group == 1 ? Tag::oihw : Tag::goihw);
    const memory::desc any_weights = plain(weight_dims, Tag::any);
    const memory::dims strides{window.stride_h, window.stride_w};
    const memory::dims gaps{window.dilation_h - 1, window.dilation_w - 1};
    const memory::dims pads{window.pad_h, window.pad_w};
    const auto algorithm = dnnl::algorithm::convolution_direct;

    const auto forward = describe<dnnl::convolution_forward>(
        cpu_engine(), dnnl::prop_kind::forward_training, algorithm, source, any_weights, bias,
        target, strides, gaps, pads, pads);
    forward_ = dnnl::convolution_forward(forward);
    forward_weights_.emplace(weights, forward.weights_desc());

    if (bottom_gradient) {
      const auto data = describe_backward<dnnl::convolution_backward_data>(
          cpu_engine(), forward, algorithm, source, any_weights, target, strides, gaps, pads, pads);
      backward_bottom_ = dnnl::convolution_backward_data(data);
      backward_weights_.emplace(weights, data.weights_desc());
    }

    const auto parameters = describe_backward<dnnl::convolution_backward_weights>(
        cpu_engine(), forward, algorithm, source, any_weights, bias, target, strides, gaps, pads,
        pads);
    backward_parameters_ = dnnl::convolution_backward_weights(parameters);
    weights_gradient_.emplace(weights, parameters.diff_weights_desc());
    bottom_ = foreign(source);
    top_ = foreign(target);
    if (has_bias) bias_ = foreign(bias);
  }

  void forward(Stream& stream, DeviceSpan<const float> bottom, DeviceSpan<const float> weights,
               DeviceSpan<const float> bias, DeviceSpan<float> top) override {
    cpu::enter(stream);
    point(bottom_, bottom.address());
    point(top_, top.address());
    Arguments arguments{{DNNL_ARG_SRC, bottom_},
                        {DNNL_ARG_WEIGHTS, forward_weights_->loaded(weights.address())},
                        {DNNL_ARG_DST, top_}};
    if (spec_.bias) {
      point(bias_, bias.address());
      arguments.emplace(DNNL_ARG_BIAS, bias_);
    }
    execute(forward_, arguments);
  }

  void backward_bottom(Stream& stream, DeviceSpan<const float> top_gradient,
                       DeviceSpan<const float> weights,
                       DeviceSpan<float> bottom_gradient) override {
    TAUT_CHECK(spec_.bottom_gradient, "this convolution was made without a bottom gradient");
    cpu::enter(stream);
    point(top_, top_gradient.address());
    point(bottom_, bottom_gradient.address());
    execute(backward_bottom_, {{DNNL_ARG_DIFF_DST, top_},
                               {DNNL_ARG_WEIGHTS, backward_weights_->loaded(weights.address())},
                               {DNNL_ARG_DIFF_SRC, bottom_}});
  }

  void backward_parameters(Stream& stream, DeviceSpan<const float> bottom,
                           DeviceSpan<const float> top_gradient, DeviceSpan<float> weights_gradient,
                           DeviceSpan<float> bias_gradient) override {
    if (weights_gradient.empty() && bias_gradient.empty()) return;
    cpu::enter(stream);
    point(bottom_, bottom.address());
    point(top_, top_gradient.address());
    Arguments arguments{
        {DNNL_ARG_SRC, bottom_},
        {DNNL_ARG_DIFF_DST, top_},
        {DNNL_ARG_DIFF_WEIGHTS,
         weights_gradient_->target(wanted(weights_gradient, weights_size(), unwanted_weights_))}};
    if (spec_.bias) {
      point(bias_, wanted(bias_gradient, static_cast<std::size_t>(spec_.top.c), unwanted_bias_));
      arguments.emplace(DNNL_ARG_DIFF_BIAS, bias_);
    }
    execute(backward_parameters_, arguments);
    weights_gradient_->store();
  }

 private:
  [[nodiscard]] std::size_t weights_size() const {
    return static_cast<std::size_t>(spec_.top.c * (spec_.bottom.c / spec_.group) *
                                    spec_.window.kernel_h * spec_.window.kernel_w);
  }
  /// The library writes both gradients or none, so one that nobody wants needs a place too.
  static float* wanted(DeviceSpan<float> gradient, std::size_t size, std::vector<float>& instead) {
    if (!gradient.empty()) return gradient.address();
    instead.resize(size);
    return instead.data();
  }

  ConvolutionSpec spec_;
  primitive forward_;
  primitive backward_bottom_;
  primitive backward_parameters_;
  std::optional<Parameter> forward_weights_;
  std::optional<Parameter> backward_weights_;
  std::optional<Parameter> weights_gradient_;
  memory bottom_;
  memory top_;
  memory bias_;
  std::vector<float> unwanted_weights_;
  std::vector<float> unwanted_bias_;
};

/// A convolution of rank-3 tensors, which do not lie channels last: brings them into that order and
/// back.
class RowConvolution final : public LinearOp {
 public:
  explicit RowConvolution(const ConvolutionSpec& spec)
      : convolution_(spec),
        bottom_in_(spec.bottom, ImageOrder::kChannelsLast),
        bottom_out_(spec.bottom, ImageOrder::kChannelsFirst),
        top_in_(spec.top, ImageOrder::kChannelsLast),
        top_out_(spec.top, ImageOrder::kChannelsFirst),
        bottom_(spec.bottom.count()),
        top_(spec.top.count()) {}

  void forward(Stream& stream, DeviceSpan<const float> bottom, DeviceSpan<const float> weights,
               DeviceSpan<const float> bias, DeviceSpan<float> top) override {
    cpu::enter(stream);
    convolution_.forward(stream, entered(bottom_in_, bottom, bottom_), weights, bias, span(top_));
    top_out_.run(top_.data(), top.address());
  }

  void backward_bottom(Stream& stream, DeviceSpan<const float> top_gradient,
                       DeviceSpan<const float> weights,
                       DeviceSpan<float> bottom_gradient) override {
    cpu::enter(stream);
    convolution_.backward_bottom(stream, entered(top_in_, top_gradient, top_), weights,
                                 span(bottom_));
    bottom_out_.run(bottom_.data(), bottom_gradient.address());
  }

  void backward_parameters(Stream& stream, DeviceSpan<const float> bottom,
                           DeviceSpan<const float> top_gradient, DeviceSpan<float> weights_gradient,
                           DeviceSpan<float> bias_gradient) override {
    cpu::enter(stream);
    convolution_.backward_parameters(stream, entered(bottom_in_, bottom, bottom_),
                                     entered(top_in_, top_gradient, top_), weights_gradient,
                                     bias_gradient);
  }

 private:
  static DeviceSpan<float> span(std::vector<float>& values) {
    return {values.data(), values.size()};
  }
  static DeviceSpan<const float> entered(ImageReorder& reorder, DeviceSpan<const float> from,
                                         std::vector<float>& into) {
    reorder.run(from.address(), into.data());
    return span(into);
  }

  Convolution convolution_;
  ImageReorder bottom_in_, bottom_out_, top_in_, top_out_;
  std::vector<float> bottom_, top_;  // channels last
};

}  // namespace

std::unique_ptr<LinearOp> make_convolution(const ConvolutionSpec& spec) {
  return built("convolution", [&]() -> std::unique_ptr<LinearOp> {
    if (spec.rows) return std::make_unique<RowConvolution>(spec);
    return std::make_unique<Convolution>(spec);
  });
}

}  // namespace taut::dnnl_cpu
