#include <algorithm>
#include <optional>
#include <utility>

#include "worker/engine/cpu/dnnl/engine.hpp"
#include "worker/engine/cpu/ops.hpp"

namespace taut::dnnl_cpu {
namespace {

/// A parameter that the caller stores in Caffe's order and a primitive may need in its own order.
class Parameter {
 public:
  Parameter(const memory::desc& callers, const memory::desc& primitives)
      : callers_(foreign(callers)) {
    if (callers == primitives) return;
    own_ = foreign(primitives);
    place_ = cpu::OwnMemory(floats_of(primitives));
    load_ = dnnl::reorder(callers_, own_);
    store_ = dnnl::reorder(own_, callers_);
  }

  /// The caller's values, ready to be read.
  const memory& loaded(const float* values) {
    point(callers_, values);
    if (place_.empty()) return callers_;
    point(own_, place_.data());
    execute(load_, {{DNNL_ARG_FROM, callers_}, {DNNL_ARG_TO, own_}});
    return own_;
  }
  /// The memory that the primitive writes; store() then copies it to the caller's.
  const memory& target(float* values) {
    point(callers_, values);
    if (place_.empty()) return callers_;
    point(own_, place_.data());
    return own_;
  }
  void store() {
    if (!place_.empty()) execute(store_, {{DNNL_ARG_FROM, own_}, {DNNL_ARG_TO, callers_}});
  }
  /// The memory for the primitive's own order, valid within a call.
  [[nodiscard]] cpu::OwnMemory& place() { return place_; }
  [[nodiscard]] const cpu::OwnMemory& place() const { return place_; }

 private:
  memory callers_;
  memory own_;
  cpu::OwnMemory place_;
  dnnl::reorder load_;
  dnnl::reorder store_;
};

class Convolution final : public LinearOp {
 public:
  explicit Convolution(const ConvolutionSpec& spec)
      : spec_(spec),
        unwanted_weights_(weights_size()),
        unwanted_bias_(static_cast<std::size_t>(spec.top.c)) {
    const auto& [bottom, top, rows, window, group, has_bias, bottom_gradient, runs_backwards] =
        spec;
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
    forward_ = {dnnl::convolution_forward(forward), forward.scratchpad_desc()};
    forward_weights_.emplace(weights, forward.weights_desc());

    if (bottom_gradient) {
      const auto data = describe_backward<dnnl::convolution_backward_data>(
          cpu_engine(), forward, algorithm, source, any_weights, target, strides, gaps, pads, pads);
      backward_bottom_ = {dnnl::convolution_backward_data(data), data.scratchpad_desc()};
      backward_weights_.emplace(weights, data.weights_desc());
    }

    const auto parameters = describe_backward<dnnl::convolution_backward_weights>(
        cpu_engine(), forward, algorithm, source, any_weights, bias, target, strides, gaps, pads,
        pads);
    backward_parameters_ = {dnnl::convolution_backward_weights(parameters),
                            parameters.scratchpad_desc()};
    weights_gradient_.emplace(weights, parameters.diff_weights_desc());
    bottom_ = foreign(source);
    top_ = foreign(target);
    if (has_bias) bias_ = foreign(bias);
  }

  OpMemory own_memory() const override {
    Bytes most = cpu::bytes_of({&forward_weights_->place(), &forward_.scratch()});
    if (backward_weights_) {
      most =
          std::max(most, cpu::bytes_of({&backward_weights_->place(), &backward_bottom_.scratch()}));
    }
    return {
        {},
        std::max(most, cpu::bytes_of({&weights_gradient_->place(), &backward_parameters_.scratch(),
                                      &unwanted_weights_, &unwanted_bias_}))};
  }
  void lend(DeviceSpan<float>, DeviceSpan<float> scratch) override {
    cpu::lend_in_turn(scratch, {&forward_weights_->place(), &forward_.scratch()});
    if (backward_weights_) {
      cpu::lend_in_turn(scratch, {&backward_weights_->place(), &backward_bottom_.scratch()});
    }
    cpu::lend_in_turn(scratch, {&weights_gradient_->place(), &backward_parameters_.scratch(),
                                &unwanted_weights_, &unwanted_bias_});
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
    forward_.run(std::move(arguments));
  }

  void backward_bottom(Stream& stream, DeviceSpan<const float> top_gradient,
                       DeviceSpan<const float> weights,
                       DeviceSpan<float> bottom_gradient) override {
    TAUT_CHECK(spec_.bottom_gradient, "this convolution was made without a bottom gradient");
    cpu::enter(stream);
    point(top_, top_gradient.address());
    point(bottom_, bottom_gradient.address());
    backward_bottom_.run({{DNNL_ARG_DIFF_DST, top_},
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
    Arguments arguments{{DNNL_ARG_SRC, bottom_},
                        {DNNL_ARG_DIFF_DST, top_},
                        {DNNL_ARG_DIFF_WEIGHTS, weights_gradient_->target(requested(
                                                    weights_gradient, unwanted_weights_))}};
    if (spec_.bias) {
      point(bias_, requested(bias_gradient, unwanted_bias_));
      arguments.emplace(DNNL_ARG_DIFF_BIAS, bias_);
    }
    backward_parameters_.run(std::move(arguments));
    weights_gradient_->store();
  }

 private:
  [[nodiscard]] std::size_t weights_size() const {
    return static_cast<std::size_t>(spec_.top.c * (spec_.bottom.c / spec_.group) *
                                    spec_.window.kernel_h * spec_.window.kernel_w);
  }
  /// The library writes both gradients or neither, so an unneeded one needs memory too.
  static float* requested(DeviceSpan<float> gradient, cpu::OwnMemory& instead) {
    return gradient.empty() ? instead.data() : gradient.address();
  }

  ConvolutionSpec spec_;
  Prepared forward_;
  Prepared backward_bottom_;
  Prepared backward_parameters_;
  std::optional<Parameter> forward_weights_;
  std::optional<Parameter> backward_weights_;
  std::optional<Parameter> weights_gradient_;
  memory bottom_;
  memory top_;
  memory bias_;
  cpu::OwnMemory unwanted_weights_;
  cpu::OwnMemory unwanted_bias_;
};

/// A convolution of rank-3 tensors, which are not stored channels last: converts them to that order
/// and back.
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

  OpMemory own_memory() const override {
    return {{},
            Bytes(cpu::bytes_of({&bottom_, &top_}).value() +
                  convolution_.own_memory().scratch.value())};
  }
  void lend(DeviceSpan<float>, DeviceSpan<float> scratch) override {
    cpu::lend_in_turn(scratch, {&bottom_, &top_});
    const std::size_t begin = bottom_.room() + top_.room();
    convolution_.lend({}, scratch.subspan(begin, scratch.size() - begin));
  }

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
  static DeviceSpan<float> span(cpu::OwnMemory& values) { return {values.data(), values.size()}; }
  static DeviceSpan<const float> entered(ImageReorder& reorder, DeviceSpan<const float> from,
                                         cpu::OwnMemory& into) {
    reorder.run(from.address(), into.data());
    return span(into);
  }

  Convolution convolution_;
  ImageReorder bottom_in_, bottom_out_, top_in_, top_out_;
  cpu::OwnMemory bottom_, top_;  // channels last
};

}  // namespace
}  // namespace taut::dnnl_cpu

namespace taut {

std::unique_ptr<LinearOp> cpu::make_op(const ConvolutionSpec& spec) {
  return dnnl_cpu::built("convolution", [&]() -> std::unique_ptr<LinearOp> {
    if (spec.rows) return std::make_unique<dnnl_cpu::RowConvolution>(spec);
    return std::make_unique<dnnl_cpu::Convolution>(spec);
  });
}

}  // namespace taut
