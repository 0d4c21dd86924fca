#include "worker/model/gradients.hpp"

#include <algorithm>

namespace taut::model {
namespace {

bool has_trained(const Graph& graph, const Node& node) {
  return std::any_of(node.parameters.begin(), node.parameters.end(), [&](std::size_t index) {
    return graph.parameters[index].kind == TableKind::kTrained;
  });
}

}  // namespace

void mark_gradients(Graph& graph) {
  if (graph.phase != pb::TRAIN) return;

  const auto any_bottom = [](const Node& node, const std::vector<bool>& marked) {
    for (std::size_t k = 0; k < node.bottoms.size(); ++k) {
      if (node.passes_gradient[k] && marked[node.bottoms[k]]) return true;
    }
    return false;
  };

  std::vector<bool> after_parameter(graph.blobs.size(), false);
  for (const Node& node : graph.nodes) {
    if (!has_trained(graph, node) && !any_bottom(node, after_parameter)) continue;
    for (const std::size_t top : node.tops) after_parameter[top] = true;
  }

  std::vector<bool> before_loss(graph.blobs.size(), false);
  for (std::size_t i = graph.nodes.size(); i-- > 0;) {
    Node& node = graph.nodes[i];
    bool leads_to_loss = false;
    for (std::size_t top = 0; top < node.tops.size(); ++top) {
      const bool is_weighted = node.loss_weights[top] != 0;
      leads_to_loss = leads_to_loss || before_loss[node.tops[top]] || is_weighted;
      if (is_weighted && !node.is_loss) before_loss[node.tops[top]] = true;
    }
    if (!leads_to_loss) continue;
    node.needs_backward = has_trained(graph, node) || any_bottom(node, after_parameter);
    for (std::size_t k = 0; k < node.bottoms.size(); ++k) {
      if (node.passes_gradient[k]) before_loss[node.bottoms[k]] = true;
    }
  }

  for (std::size_t blob = 0; blob < graph.blobs.size(); ++blob) {
    graph.blobs[blob].needs_gradient = after_parameter[blob] && before_loss[blob];
  }
}

}  // namespace taut::model
