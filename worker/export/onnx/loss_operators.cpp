#include "worker/export/onnx/layer_operators.hpp"
#include "worker/model/extents.hpp"

namespace taut::onnx {
namespace {

Result<void> softmax_to(LayerTranslation& layer, std::size_t top, std::int64_t given) {
  TAUT_TRY(const std::size_t axis, model::axis_index(given, layer.bottom_shape(0), "axis"));
  layer.write(top, "Softmax", {layer.bottom(0)}, {whole("axis", static_cast<std::int64_t>(axis))});
  return ok();
}

Result<void> softmax(LayerTranslation& layer) {
  return softmax_to(layer, 0, layer.definition().softmax_param().axis());
}

/// A second top holds the probabilities.
Result<void> softmax_loss(LayerTranslation& layer) {
  if (layer.top_count() < 2) return ok();
  return softmax_to(layer, 1, layer.definition().softmax_param().axis());
}

Result<void> infogain_loss(LayerTranslation& layer) {
  if (layer.top_count() < 2) return ok();
  return softmax_to(layer, 1, layer.definition().infogain_loss_param().axis());
}

/// For layers that compare outputs with labels, which a net in use does not have.
Result<void> measure(LayerTranslation&) {
  return ok();
}

constexpr LayerOperators kLossOperators[]{
    {"Softmax", softmax},
    {"SoftmaxWithLoss", softmax_loss},
    {"InfogainLoss", infogain_loss},
    {"EuclideanLoss", measure},
    {"SigmoidCrossEntropyLoss", measure},
    {"HingeLoss", measure},
    {"ContrastiveLoss", measure},
    {"Accuracy", measure},
};

}  // namespace

std::span<const LayerOperators> loss_operators() {
  return kLossOperators;
}

}  // namespace taut::onnx
