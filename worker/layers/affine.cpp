#include "worker/layers/layer_makers.hpp"

namespace taut::layers {
namespace {

/// Scale and Bias whose numbers are the layer's parameters: factors first, then summands.
class Affine final : public Layer {
 public:
  Affine(std::unique_ptr<AffineOp> op, bool scale, bool bias)
      : op_(std::move(op)), scale_(scale), bias_(bias) {}

  void forward(const Ports& ports, Stream& stream, Clock) override {
    op_->forward(stream, ports.bottoms[0].value, factors(ports).value, summands(ports).value,
                 ports.tops[0].value);
  }
  void backward(const Ports& ports, Stream& stream) override {
    op_->backward(stream, ports.bottoms[0].value, factors(ports).value, ports.tops[0].gradient,
                  ports.bottoms[0].gradient, factors(ports).gradient, summands(ports).gradient);
  }

 private:
  [[nodiscard]] Parameter factors(const Ports& ports) const {
    return scale_ ? ports.parameters[0] : Parameter{};
  }
  [[nodiscard]] Parameter summands(const Ports& ports) const {
    return bias_ ? ports.parameters[scale_ ? 1 : 0] : Parameter{};
  }

  std::unique_ptr<AffineOp> op_;
  bool scale_;
  bool bias_;
};

/// Scale and Bias whose numbers are the second bottom; a Scale's summands are still its own.
class AffineOfBottoms final : public Layer {
 public:
  AffineOfBottoms(std::unique_ptr<AffineOp> op, std::unique_ptr<AffineOp> own_summands, bool scale)
      : op_(std::move(op)), own_summands_(std::move(own_summands)), scale_(scale) {}

  void forward(const Ports& ports, Stream& stream, Clock) override {
    const DeviceSpan<const float> given = ports.bottoms[1].value;
    const DeviceSpan<float> top = ports.tops[0].value;
    op_->forward(stream, ports.bottoms[0].value, scale_ ? given : DeviceSpan<const float>(),
                 scale_ ? DeviceSpan<const float>() : given, top);
    if (own_summands_) own_summands_->forward(stream, top, {}, ports.parameters[0].value, top);
  }
  void backward(const Ports& ports, Stream& stream) override {
    const Tensor& top = ports.tops[0];
    if (own_summands_) {
      own_summands_->backward(stream, top.value, {}, top.gradient, {}, {},
                              ports.parameters[0].gradient);
    }
    const Tensor& given = ports.bottoms[1];
    op_->backward(stream, ports.bottoms[0].value, given.value, top.gradient,
                  ports.bottoms[0].gradient, scale_ ? given.gradient : DeviceSpan<float>(),
                  scale_ ? DeviceSpan<float>() : given.gradient);
  }

 private:
  std::unique_ptr<AffineOp> op_;
  std::unique_ptr<AffineOp> own_summands_;
  bool scale_;
};

/// The extents from `axis` on, `count` of them; -1: all.
Extents part_of(const Extents& shape, std::size_t axis, std::int64_t count) {
  const auto first = shape.begin() + static_cast<std::ptrdiff_t>(axis);
  return {first, count == -1 ? shape.end() : first + count};
}

template <class P>
std::unique_ptr<Layer> make(Backend& backend, const LayerSetup& setup, const P& parameter,
                            bool scale, bool bias) {
  AffineSpec spec{.shape = setup.bottoms[0],
                  .axis = axis_of(parameter.axis(), setup.bottoms[0]),
                  .factors = {},
                  .scale = scale,
                  .bias = bias};
  if (setup.bottoms.size() == 1) {
    spec.factors = part_of(spec.shape, spec.axis, parameter.num_axes());
    return std::make_unique<Affine>(backend.make(spec), scale, bias);
  }
  spec.factors = setup.bottoms[1];
  std::unique_ptr<AffineOp> own_summands;
  if (scale && bias) {
    spec.scale = false;
    own_summands = backend.make(spec);
    spec.scale = true;
    spec.bias = false;
  }
  spec.factors_are_tensor = true;
  return std::make_unique<AffineOfBottoms>(backend.make(spec), std::move(own_summands), scale);
}

/// Parameters: the slopes.
class PRelu final : public Layer {
 public:
  explicit PRelu(std::unique_ptr<PReluOp> op) : op_(std::move(op)) {}

  void forward(const Ports& ports, Stream& stream, Clock) override {
    op_->forward(stream, ports.bottoms[0].value, ports.parameters[0].value, ports.tops[0].value);
  }
  void backward(const Ports& ports, Stream& stream) override {
    op_->backward(stream, ports.bottoms[0].value, ports.parameters[0].value, ports.tops[0].gradient,
                  ports.bottoms[0].gradient, ports.parameters[0].gradient);
  }

 private:
  std::unique_ptr<PReluOp> op_;
};

std::unique_ptr<Layer> make_scale(Backend& backend, const LayerSetup& setup) {
  const pb::ScaleParameter& parameter = setup.node.definition.scale_param();
  return make(backend, setup, parameter, true, parameter.bias_term());
}

std::unique_ptr<Layer> make_bias(Backend& backend, const LayerSetup& setup) {
  return make(backend, setup, setup.node.definition.bias_param(), false, true);
}

std::unique_ptr<Layer> make_prelu(Backend& backend, const LayerSetup& setup) {
  return std::make_unique<PRelu>(backend.make(PReluSpec{
      .shape = setup.bottoms[0], .shared = setup.node.definition.prelu_param().channel_shared()}));
}

}  // namespace

LayerTypes affine_layers() {
  static constexpr LayerType kTypes[]{
      {"Scale", make_scale},
      {"Bias", make_bias},
      {"PReLU", make_prelu},
  };
  return kTypes;
}

}  // namespace taut::layers
