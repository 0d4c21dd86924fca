#include "worker/model/net_cost.hpp"

#include <algorithm>
#include <set>
#include <string_view>

#include "worker/model/row_parameters.hpp"
#include "worker/model/rules/recurrent_ports.hpp"

namespace taut::model {
namespace {

std::uint64_t count_of(const Graph& graph, std::size_t blob) {
  return element_count(graph.blobs[blob].shape);
}

/// Elements of the weights of a layer: its parameters of two axes or more.
std::uint64_t matrix_elements(const Graph& graph, const Node& node) {
  std::uint64_t count = 0;
  for (const std::size_t parameter : node.parameters) {
    if (graph.parameters[parameter].shape.size() > 1) count += graph.parameters[parameter].count();
  }
  return count;
}

/// Every step of a T x N x C sequence uses each weight once, except those of an x_static, which
/// need only one product for all steps; attention's scores and their weighted sum of values add
/// 2 T^2 C per stream, also with a causal mask.
std::uint64_t sequence_multiply_adds(const Graph& graph, const Node& node) {
  const Shape& bottom = graph.blobs[node.bottoms[0]].shape;
  const auto steps = static_cast<std::uint64_t>(bottom[0]);
  const auto streams = static_cast<std::uint64_t>(bottom[1]);
  const std::uint64_t products = steps * streams * matrix_elements(graph, node);
  if (node.definition.type() != "MultiHeadAttention") {
    if (!recurrent_ports(node.definition).has_static) return products;
    // weight_x_static follows weight_x and bias_x.
    const std::uint64_t once = graph.parameters[node.parameters[2]].count();
    return products - (steps - 1) * streams * once;
  }
  return products + 2 * streams * steps * steps * static_cast<std::uint64_t>(bottom[2]);
}

std::uint64_t multiply_adds_of(const Graph& graph, const Node& node) {
  const std::string_view type = node.definition.type();
  if (type == "RNN" || type == "LSTM" || type == "GRU" || type == "MultiHeadAttention") {
    return sequence_multiply_adds(graph, node);
  }
  if (node.parameters.empty()) return 0;
  const TableSpec& weights = graph.parameters[node.parameters[0]];
  if (type == "InnerProduct" || type == "Convolution") {
    // An output is the sum over one filter: all axes of the weights except the first.
    return count_of(graph, node.tops[0]) *
           (weights.count() / static_cast<std::uint64_t>(weights.shape[0]));
  }
  if (type == "Deconvolution") {
    return count_of(graph, node.bottoms[0]) *
           (weights.count() / static_cast<std::uint64_t>(weights.shape[0]));
  }
  return 0;
}

}  // namespace

NetCost net_cost(const Graph& graph) {
  NetCost cost;
  const std::vector<TableSpec> served = served_tables(graph);
  std::set<std::size_t> parameters;
  std::set<std::size_t> blobs;
  for (const Node& node : graph.nodes) {
    LayerCost layer;
    for (const std::size_t parameter : node.parameters) {
      if (!parameters.insert(parameter).second) continue;
      const TableSpec& table = graph.parameters[parameter];
      const bool counted = node.definition.type() == "BatchNorm";
      (counted ? layer.statistics : layer.parameters) += served[parameter].count();
      // Statistics also need a gradient's memory, for their new values.
      const bool pushed = table.kind != TableKind::kFrozen;
      cost.training_bytes += (pushed ? 2 : 1) * table.count() * sizeof(float);
      cost.inference_bytes += table.count() * sizeof(float);
    }
    layer.multiply_adds = multiply_adds_of(graph, node);
    for (const std::size_t top : node.tops) {
      if (!blobs.insert(top).second) continue;
      const std::uint64_t bytes = count_of(graph, top) * sizeof(float);
      layer.top_bytes += bytes;
      cost.training_bytes += (graph.blobs[top].needs_gradient ? 2 : 1) * bytes;
    }
    cost.parameters += layer.parameters;
    cost.statistics += layer.statistics;
    cost.multiply_adds += layer.multiply_adds;
    cost.inference_bytes += layer.top_bytes;
    cost.layers.push_back(layer);
  }
  return cost;
}

}  // namespace taut::model
