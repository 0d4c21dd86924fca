#include "worker/layers/layer_makers.hpp"

namespace taut::layers {
namespace {

/// Bottoms: scores, labels. Tops: the accuracy, and optionally each class's accuracy. It has no
/// gradient.
class Accuracy final : public Layer {
 public:
  explicit Accuracy(std::unique_ptr<AccuracyOp> op) : op_(std::move(op)) {}

  void forward(const Ports& ports, Stream& stream, Clock) override {
    op_->forward(stream, ports.bottoms[0].value, ports.bottoms[1].value, ports.tops[0].value,
                 ports.tops.size() > 1 ? ports.tops[1].value : DeviceSpan<float>());
  }
  void backward(const Ports&, Stream&) override {}

 private:
  std::unique_ptr<AccuracyOp> op_;
};

std::unique_ptr<Layer> make_accuracy(Backend& backend, const LayerSetup& setup) {
  const pb::AccuracyParameter& parameter = setup.node.definition.accuracy_param();
  AccuracySpec spec{.shape = setup.bottoms[0],
                    .axis = axis_of(parameter.axis(), setup.bottoms[0]),
                    .top_k = parameter.top_k(),
                    .ignore_label = std::nullopt};
  if (parameter.has_ignore_label()) spec.ignore_label = parameter.ignore_label();
  return std::make_unique<Accuracy>(backend.make(spec));
}

}  // namespace

LayerTypes accuracy_layers() {
  static constexpr LayerType kTypes[]{
      {"Accuracy", make_accuracy},
  };
  return kTypes;
}

}  // namespace taut::layers
