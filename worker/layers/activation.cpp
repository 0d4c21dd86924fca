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
    const Tensor& top = ports.tops[0];
    if (ports.bottoms[0].gradient.empty()) return;
    op_->backward(stream, top.value, top.gradient, ports.bottoms[0].gradient);
  }

 private:
  std::unique_ptr<ActivationOp> op_;
};

std::unique_ptr<Layer> make(Backend& backend, ActivationKind kind, float negative_slope = 0) {
  return std::make_unique<Activation>(
      backend.activation({.kind = kind, .negative_slope = negative_slope}));
}

}  // namespace

std::unique_ptr<Layer> make_relu(Backend& backend, const LayerSetup& setup) {
  return make(backend, ActivationKind::kRelu, setup.node.definition.relu_param().negative_slope());
}

std::unique_ptr<Layer> make_sigmoid(Backend& backend, const LayerSetup&) {
  return make(backend, ActivationKind::kSigmoid);
}

std::unique_ptr<Layer> make_tanh(Backend& backend, const LayerSetup&) {
  return make(backend, ActivationKind::kTanH);
}

}  // namespace taut::layers
