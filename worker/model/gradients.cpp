#include "worker/model/gradients.hpp"

#include <fmt/format.h>

#include <algorithm>

namespace taut::model {
namespace {

bool has_trained(const Graph& graph, const Node& node) {
  return std::any_of(node.parameters.begin(), node.parameters.end(), [&](std::size_t index) {
    return graph.parameters[index].kind == TableKind::kTrained;
  });
}

/// Refuses a loss without a gradient of a bottom that depends on parameters: it would train them
/// with only a part of its derivative.
/// changed  for each blob, whether it depends on trained parameters
Result<void> check_constants(const Graph& graph, const Node& loss,
                             const std::vector<bool>& changed) {
  const pb::LayerParameter& layer = loss.definition;
  for (std::size_t k = 0; k < loss.bottoms.size(); ++k) {
    const auto index = static_cast<int>(k);
    const bool is_stopped = layer.propagate_down_size() > 0 && !layer.propagate_down(index);
    if (loss.passes_gradient[k] || is_stopped || !changed[loss.bottoms[k]]) continue;
    return invalid(fmt::format(
        "layer \"{}\" ({}): bottom \"{}\" depends on trained parameters, and the type has no "
        "gradient of its bottom {}: name a blob that does not, or take it as given with "
        "propagate_down, once for each bottom and false for this one",
        layer.name(), layer.type(), graph.blobs[loss.bottoms[k]].name, k + 1));
  }
  return ok();
}

}  // namespace

Result<void> mark_gradients(Graph& graph) {
  if (graph.phase != pb::TRAIN) return ok();

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
    if (node.is_loss) {
      TAUT_TRY(check_constants(graph, node, after_parameter));
    }
    node.needs_backward = has_trained(graph, node) || any_bottom(node, after_parameter);
    for (std::size_t k = 0; k < node.bottoms.size(); ++k) {
      if (node.passes_gradient[k]) before_loss[node.bottoms[k]] = true;
    }
  }

  for (std::size_t blob = 0; blob < graph.blobs.size(); ++blob) {
    graph.blobs[blob].needs_gradient = after_parameter[blob] && before_loss[blob];
  }
  return ok();
}

}  // namespace taut::model
