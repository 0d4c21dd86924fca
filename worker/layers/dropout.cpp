#include "worker/layers/layer_makers.hpp"

namespace taut::layers {
namespace {

class Dropout final : public Layer {
 public:
  explicit Dropout(std::unique_ptr<DropoutOp> op) : op_(std::move(op)) {}

  void forward(const Ports& ports, Stream& stream, Clock clock) override {
    op_->forward(stream, clock, ports.bottoms[0].value, ports.tops[0].value);
  }
  void backward(const Ports& ports, Stream& stream) override {
    if (ports.bottoms[0].gradient.empty()) return;
    op_->backward(stream, ports.tops[0].gradient, ports.bottoms[0].gradient);
  }

 private:
  std::unique_ptr<DropoutOp> op_;
};

/// Dropout outside training: everything is kept.
class Identity final : public Layer {
 public:
  explicit Identity(Backend& backend) : backend_(backend) {}

  void forward(const Ports& ports, Stream& stream, Clock) override {
    copy(stream, ports.bottoms[0].value, ports.tops[0].value);
  }
  void backward(const Ports& ports, Stream& stream) override {
    if (ports.bottoms[0].gradient.empty()) return;
    copy(stream, ports.tops[0].gradient, ports.bottoms[0].gradient);
  }

 private:
  void copy(Stream& stream, DeviceSpan<const float> from, DeviceSpan<float> to) {
    if (from.address() != to.address()) backend_.copy(stream, from, to);
  }

  Backend& backend_;
};

std::unique_ptr<Layer> make_dropout(Backend& backend, const LayerSetup& setup) {
  if (!setup.training) return std::make_unique<Identity>(backend);
  return std::make_unique<Dropout>(
      backend.make(DropoutSpec{.shape = setup.bottoms[0],
                               .ratio = setup.node.definition.dropout_param().dropout_ratio(),
                               .seed = setup.seed,
                               .slot = setup.slot,
                               .layer = setup.index}));
}

}  // namespace

LayerTypes dropout_layers() {
  static constexpr LayerType kTypes[]{
      {"Dropout", make_dropout},
  };
  return kTypes;
}

}  // namespace taut::layers
