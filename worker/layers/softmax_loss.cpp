#include <stdexcept>

#include "worker/layers/layer_makers.hpp"
#include "worker/model/infogain.hpp"

namespace taut::layers {
namespace {

/// Bottoms: scores, labels. Tops: the loss, and optionally the probabilities.
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

std::unique_ptr<Layer> make_softmax_loss(Backend& backend, const LayerSetup& setup) {
  const pb::LayerParameter& definition = setup.node.definition;
  const Extents& scores = setup.bottoms[0];
  auto op = backend.make(SoftmaxLossSpec{
      .shape = scores,
      .axis = axis_of(definition.softmax_param().axis(), scores),
      .ignore_label = ignore_label_of(definition.loss_param()),
      .normalization = normalization_of(definition.loss_param(), Normalization::kValid)});
  const std::size_t own = setup.tops.size() > 1 ? 0 : model::element_count(scores);
  return std::make_unique<SoftmaxLoss>(
      std::move(op), backend.allocate_floats(own, "probabilities of " + definition.name()),
      setup.node.loss_weights[0]);
}

/// Bottoms: scores, labels, and the matrix if it is not in a file. Tops as above.
class InfogainLoss final : public Layer {
 public:
  InfogainLoss(std::unique_ptr<InfogainLossOp> op, DeviceBuffer probabilities, DeviceBuffer matrix,
               float weight)
      : op_(std::move(op)),
        own_(std::move(probabilities)),
        matrix_(std::move(matrix)),
        weight_(weight) {}

  void forward(const Ports& ports, Stream& stream, Clock) override {
    op_->forward(stream, ports.bottoms[0].value, ports.bottoms[1].value, matrix(ports),
                 probabilities(ports), ports.tops[0].value);
  }
  void backward(const Ports& ports, Stream& stream) override {
    if (ports.bottoms[0].gradient.empty()) return;
    op_->backward(stream, probabilities(ports), ports.bottoms[1].value, matrix(ports), weight_,
                  ports.bottoms[0].gradient);
  }

 private:
  [[nodiscard]] DeviceSpan<float> probabilities(const Ports& ports) const {
    return ports.tops.size() > 1 ? ports.tops[1].value : own_.as<float>();
  }
  [[nodiscard]] DeviceSpan<const float> matrix(const Ports& ports) const {
    return ports.bottoms.size() > 2 ? ports.bottoms[2].value : matrix_.as<float>();
  }

  std::unique_ptr<InfogainLossOp> op_;
  DeviceBuffer own_;
  DeviceBuffer matrix_;
  float weight_;
};

/// The matrix of a layer without a third bottom, on the device.
DeviceBuffer infogain_matrix(Backend& backend, const LayerSetup& setup, std::int64_t classes) {
  if (setup.bottoms.size() > 2) return {};
  const auto values =
      model::read_infogain(setup.node.definition.infogain_loss_param().source(), classes);
  if (!values) throw std::invalid_argument(values.error().message);
  DeviceBuffer matrix = backend.allocate_floats(values.value().size(), "an infogain matrix");
  const auto stream = backend.make_stream();
  backend.copy_to_device(*stream, values.value(), matrix.as<float>());
  stream->finish();
  return matrix;
}

std::unique_ptr<Layer> make_infogain_loss(Backend& backend, const LayerSetup& setup) {
  const pb::LayerParameter& definition = setup.node.definition;
  const Extents& scores = setup.bottoms[0];
  const std::size_t axis = axis_of(definition.infogain_loss_param().axis(), scores);
  auto op = backend.make(InfogainLossSpec{
      .shape = scores,
      .axis = axis,
      .ignore_label = ignore_label_of(definition.loss_param()),
      .normalization = normalization_of(definition.loss_param(), Normalization::kValid)});
  const std::size_t own = setup.tops.size() > 1 ? 0 : model::element_count(scores);
  return std::make_unique<InfogainLoss>(
      std::move(op), backend.allocate_floats(own, "probabilities of " + definition.name()),
      infogain_matrix(backend, setup, scores[axis]), setup.node.loss_weights[0]);
}

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

LayerTypes softmax_loss_layers() {
  static constexpr LayerType kTypes[]{
      {"SoftmaxWithLoss", make_softmax_loss},
      {"InfogainLoss", make_infogain_loss},
  };
  return kTypes;
}

}  // namespace taut::layers
