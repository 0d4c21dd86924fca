#include <algorithm>

#include "worker/model/extents.hpp"
#include "worker/model/graph.hpp"

namespace taut::model {

LabelLimits label_limits(const Graph& graph, std::size_t blob) {
  LabelLimits limits;
  for (const Node& node : graph.nodes) {
    const pb::LayerParameter& layer = node.definition;
    const bool is_infogain = layer.type() == "InfogainLoss";
    const bool is_loss = layer.type() == "SoftmaxWithLoss" || is_infogain;
    if (!is_loss && layer.type() != "Accuracy") continue;
    if (node.bottoms[1] != blob) continue;
    const Shape& scores = graph.blobs[node.bottoms[0]].shape;
    const auto axis = axis_index(is_infogain ? layer.infogain_loss_param().axis()
                                 : is_loss   ? layer.softmax_param().axis()
                                             : layer.accuracy_param().axis(),
                                 scores, "axis");
    const std::int64_t classes = scores[axis.value()];
    limits.classes = limits.classes == 0 ? classes : std::min(limits.classes, classes);
    if (layer.loss_param().has_ignore_label()) limits.ignored = layer.loss_param().ignore_label();
    if (layer.accuracy_param().has_ignore_label()) {
      limits.ignored = layer.accuracy_param().ignore_label();
    }
  }
  return limits;
}

}  // namespace taut::model
