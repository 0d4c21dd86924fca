#include <cmath>

#include "worker/layers/layer_makers.hpp"

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
  return std::make_unique<Activation>(backend.activation(spec));
}

/// Caffe's base of -1 means e.
float log_of_base(float base) {
  return base == -1 ? 1 : std::log(base);
}

}  // namespace

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

}  // namespace taut::layers
