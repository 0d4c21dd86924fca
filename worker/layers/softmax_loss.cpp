#include <stdexcept>

#include "worker/layers/layer_makers.hpp"

namespace taut::layers {
namespace {

/// Bottoms: scores, labels. Tops: the loss, and the probabilities where they are asked for.
class SoftmaxLoss final : public Layer {
 public:
  SoftmaxLoss(std::unique_ptr<SoftmaxLossOp> op, DeviceBuffer probabilities, float weight)
      : op_(std::move(op)), own_(std::move(probabilities)), weight_(weight) {}

  void forward(const Ports& ports, Stream& stream, Clock) override {
    op_->forward(stream, ports.bottoms[0].value, ports.bottoms[1].value, probabilities(ports),
                 ports.tops[0].value);
  }
  void backward(const Ports& ports, Stream& stream) override {
    if (ports.bottoms[0].gradient.empty()) return;
    op_->backward(stream, probabilities(ports), ports.bottoms[1].value, weight_,
                  ports.bottoms[0].gradient);
  }

 private:
  [[nodiscard]] DeviceSpan<float> probabilities(const Ports& ports) const {
    return ports.tops.size() > 1 ? ports.tops[1].value : own_.as<float>();
  }

  std::unique_ptr<SoftmaxLossOp> op_;
  DeviceBuffer own_;
  float weight_;
};

}  // namespace

std::unique_ptr<Layer> make_softmax_loss(Backend& backend, const LayerSetup& setup) {
  const pb::LayerParameter& definition = setup.node.definition;
  const Extents& scores = setup.bottoms[0];
  if (setup.bottom_gradients[1]) {
    throw std::invalid_argument("its labels depend on a parameter; labels have no gradient");
  }
  auto op = backend.softmax_loss({.shape = scores,
                                  .axis = axis_of(definition.softmax_param().axis(), scores),
                                  .has_ignore_label = definition.loss_param().has_ignore_label(),
                                  .ignore_label = definition.loss_param().ignore_label()});
  const std::size_t own = setup.tops.size() > 1 ? 0 : model::element_count(scores);
  return std::make_unique<SoftmaxLoss>(std::move(op), backend.allocate_floats(own),
                                       setup.node.loss_weights[0]);
}

}  // namespace taut::layers
