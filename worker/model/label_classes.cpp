#include <algorithm>

#include "worker/model/graph.hpp"
#include "worker/model/shape.hpp"

namespace taut::model {

std::int64_t label_classes(const Graph& graph) {
  std::int64_t fewest = 0;
  for (const Node& node : graph.nodes) {
    const bool is_loss = node.definition.type() == "SoftmaxWithLoss";
    if (!is_loss && node.definition.type() != "Accuracy") continue;
    const Shape& scores = graph.blobs[node.bottoms[0]].shape;
    const auto axis =
        axis_index(is_loss ? node.definition.softmax_param().axis() : 1, scores, "axis");
    const std::int64_t classes = scores[axis.value()];
    fewest = fewest == 0 ? classes : std::min(fewest, classes);
  }
  return fewest;
}

}  // namespace taut::model
