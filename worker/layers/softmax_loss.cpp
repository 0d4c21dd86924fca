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

std::optional<std::int64_t> ignore_label_of(const pb::LossParameter& loss) {
  if (!loss.has_ignore_label()) return std::nullopt;
  return loss.ignore_label();
}

Normalization normalization_of(const pb::LossParameter& loss, Normalization otherwise) {
  if (!loss.has_normalization()) {
    if (!loss.has_normalize()) return otherwise;
    return loss.normalize() ? Normalization::kValid : Normalization::kBatchSize;
  }
  switch (loss.normalization()) {
    case pb::LossParameter::FULL:
      return Normalization::kFull;
    case pb::LossParameter::BATCH_SIZE:
      return Normalization::kBatchSize;
    case pb::LossParameter::NONE:
      return Normalization::kNone;
    case pb::LossParameter::VALID:
      break;
  }
  return Normalization::kValid;
}

std::unique_ptr<Layer> make_softmax_loss(Backend& backend, const LayerSetup& setup) {
  const pb::LayerParameter& definition = setup.node.definition;
  const Extents& scores = setup.bottoms[0];
  auto op = backend.softmax_loss(
      {.shape = scores,
       .axis = axis_of(definition.softmax_param().axis(), scores),
       .ignore_label = ignore_label_of(definition.loss_param()),
       .normalization = normalization_of(definition.loss_param(), Normalization::kValid)});
  const std::size_t own = setup.tops.size() > 1 ? 0 : model::element_count(scores);
  return std::make_unique<SoftmaxLoss>(
      std::move(op), backend.allocate_floats(own, "probabilities of " + definition.name()),
      setup.node.loss_weights[0]);
}

}  // namespace taut::layers
