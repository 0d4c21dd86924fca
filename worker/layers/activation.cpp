#include <cmath>

#include "worker/layers/layer_makers.hpp"
#include "worker/layers/plain_layer.hpp"

namespace taut::layers {
namespace {

class Activation final : public Layer {
 public:
  explicit Activation(std::unique_ptr<ActivationOp> op) : op_(std::move(op)) {}

  void forward(const Ports& ports, Stream& stream, Clock) override {
    op_->forward(stream, ports.bottoms[0].value, ports.tops[0].value);
  }
  void backward(const Ports& ports, Stream& stream) override {
    const Tensor& bottom = ports.bottoms[0];
    const Tensor& top = ports.tops[0];
    if (bottom.gradient.empty()) return;
    op_->backward(stream, bottom.value, top.value, top.gradient, bottom.gradient);
  }

 private:
  std::unique_ptr<ActivationOp> op_;
};

std::unique_ptr<Layer> make(Backend& backend, const ActivationSpec& spec) {
  return std::make_unique<Activation>(backend.make(spec));
}

/// Caffe's base of -1 means e.
float log_of_base(float base) {
  return base == -1 ? 1 : std::log(base);
}

std::unique_ptr<Layer> make_relu(Backend& backend, const LayerSetup& setup) {
  return make(backend, {.kind = ActivationKind::kRelu,
                        .negative_slope = setup.node.definition.relu_param().negative_slope()});
}

std::unique_ptr<Layer> make_sigmoid(Backend& backend, const LayerSetup&) {
  return make(backend, {.kind = ActivationKind::kSigmoid});
}

std::unique_ptr<Layer> make_tanh(Backend& backend, const LayerSetup&) {
  return make(backend, {.kind = ActivationKind::kTanH});
}

std::unique_ptr<Layer> make_elu(Backend& backend, const LayerSetup& setup) {
  return make(backend,
              {.kind = ActivationKind::kElu, .alpha = setup.node.definition.elu_param().alpha()});
}

std::unique_ptr<Layer> make_power(Backend& backend, const LayerSetup& setup) {
  const pb::PowerParameter& parameter = setup.node.definition.power_param();
  return make(backend, {.kind = ActivationKind::kPower,
                        .power = parameter.power(),
                        .scale = parameter.scale(),
                        .shift = parameter.shift()});
}

std::unique_ptr<Layer> make_exp(Backend& backend, const LayerSetup& setup) {
  const pb::ExpParameter& parameter = setup.node.definition.exp_param();
  return make(backend, {.kind = ActivationKind::kExp,
                        .scale = parameter.scale(),
                        .shift = parameter.shift(),
                        .log_base = log_of_base(parameter.base())});
}

std::unique_ptr<Layer> make_log(Backend& backend, const LayerSetup& setup) {
  const pb::LogParameter& parameter = setup.node.definition.log_param();
  return make(backend, {.kind = ActivationKind::kLog,
                        .scale = parameter.scale(),
                        .shift = parameter.shift(),
                        .log_base = log_of_base(parameter.base())});
}

std::unique_ptr<Layer> make_abs(Backend& backend, const LayerSetup&) {
  return make(backend, {.kind = ActivationKind::kAbs});
}

std::unique_ptr<Layer> make_bnll(Backend& backend, const LayerSetup&) {
  return make(backend, {.kind = ActivationKind::kBnll});
}

std::unique_ptr<Layer> make_clip(Backend& backend, const LayerSetup& setup) {
  const pb::ClipParameter& parameter = setup.node.definition.clip_param();
  return make(backend,
              {.kind = ActivationKind::kClip, .low = parameter.min(), .high = parameter.max()});
}

std::unique_ptr<Layer> make_swish(Backend& backend, const LayerSetup& setup) {
  return make(backend,
              {.kind = ActivationKind::kSwish, .beta = setup.node.definition.swish_param().beta()});
}

std::unique_ptr<Layer> make_threshold(Backend& backend, const LayerSetup& setup) {
  return make(backend, {.kind = ActivationKind::kThreshold,
                        .threshold = setup.node.definition.threshold_param().threshold()});
}

std::unique_ptr<Layer> make_gelu(Backend& backend, const LayerSetup&) {
  return std::make_unique<PlainLayer<GeluOp>>(backend.make(GeluSpec{}));
}

}  // namespace

LayerTypes activation_layers() {
  static constexpr LayerType kTypes[]{
      {"ReLU", make_relu},
      {"Sigmoid", make_sigmoid},
      {"TanH", make_tanh},
      {"ELU", make_elu},
      {"Power", make_power},
      {"Exp", make_exp},
      {"Log", make_log},
      {"AbsVal", make_abs},
      {"BNLL", make_bnll},
      {"GELU", make_gelu},
      {"Clip", make_clip},
      {"Swish", make_swish},
      {"Threshold", make_threshold},
  };
  return kTypes;
}

}  // namespace taut::layers
