#include "worker/layers/layer_makers.hpp"

namespace taut::layers {
namespace {

class Softmax final : public Layer {
 public:
  explicit Softmax(std::unique_ptr<SoftmaxOp> op) : op_(std::move(op)) {}

  void forward(const Ports& ports, Stream& stream, Clock) override {
    op_->forward(stream, ports.bottoms[0].value, ports.tops[0].value);
  }
  void backward(const Ports& ports, Stream& stream) override {
    const Tensor& top = ports.tops[0];
    if (ports.bottoms[0].gradient.empty()) return;
    op_->backward(stream, top.value, top.gradient, ports.bottoms[0].gradient);
  }

 private:
  std::unique_ptr<SoftmaxOp> op_;
};

std::unique_ptr<Layer> make_softmax(Backend& backend, const LayerSetup& setup) {
  const std::int64_t axis = setup.node.definition.softmax_param().axis();
  return std::make_unique<Softmax>(backend.make(
      SoftmaxSpec{.shape = setup.bottoms[0], .axis = axis_of(axis, setup.bottoms[0])}));
}

}  // namespace

LayerTypes softmax_layers() {
  static constexpr LayerType kTypes[]{
      {"Softmax", make_softmax},
  };
  return kTypes;
}

}  // namespace taut::layers
