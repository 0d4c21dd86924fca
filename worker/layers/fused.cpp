#include "worker/layers/fused.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <stdexcept>
#include <string_view>
#include <utility>

namespace taut::layers {
namespace {

bool has_loss_weight(const model::Node& node) {
  return std::ranges::any_of(node.loss_weights, [](float weight) { return weight != 0; });
}

/// Whether a node is a layer of this type with one bottom and one top that passes gradients.
bool is_plain(const model::Node& node, std::string_view type) {
  return node.definition.type() == type && node.bottoms.size() == 1 && node.tops.size() == 1 &&
         node.definition.propagate_down_size() == 0 && !has_loss_weight(node);
}

/// Whether node `index` is a ReLU in place over the top of the node before it.
bool is_relu_over(const model::Graph& graph, std::size_t index, std::size_t top) {
  if (index >= graph.nodes.size() || !is_plain(graph.nodes[index], "ReLU")) return false;
  const model::Node& node = graph.nodes[index];
  return node.bottoms[0] == top && node.tops[0] == top &&
         node.definition.relu_param().negative_slope() == 0;
}

/// Whether only these two nodes use a blob that the first one writes.
bool is_between(const model::Graph& graph, std::size_t blob, std::size_t writer,
                std::size_t reader) {
  for (std::size_t i = writer + 1; i < graph.nodes.size(); ++i) {
    if (i != reader && std::ranges::count(graph.nodes[i].bottoms, blob) > 0) return false;
  }
  return std::ranges::count(graph.outputs, blob) == 0;
}

/// Whether a Scale has a number for each channel, as its own parameters.
bool scales_channels(const model::Node& node, std::size_t rank) {
  const pb::ScaleParameter& parameter = node.definition.scale_param();
  const bool is_axis_1 =
      parameter.axis() == 1 || parameter.axis() + static_cast<std::int64_t>(rank) == 1;
  const bool is_one_axis = parameter.num_axes() == 1 || (parameter.num_axes() == -1 && rank == 2);
  return is_axis_1 && is_one_axis;
}

bool is_scaled_batch_norm(const model::Graph& graph, std::size_t norm) {
  const std::size_t scale = norm + 1;
  if (scale >= graph.nodes.size()) return false;
  const model::Node& first = graph.nodes[norm];
  const model::Node& second = graph.nodes[scale];
  return is_plain(first, "BatchNorm") && is_plain(second, "Scale") &&
         !has_kept_statistics(first, graph.phase == pb::TRAIN) &&
         second.bottoms[0] == first.tops[0] && second.tops[0] != second.bottoms[0] &&
         scales_channels(second, graph.blobs[second.tops[0]].shape.size()) &&
         is_between(graph, first.tops[0], norm, scale);
}

/// A layer whose values another one computes.
class BackwardOnly final : public Layer {
 public:
  explicit BackwardOnly(std::unique_ptr<Layer> layer) : layer_(std::move(layer)) {}
  void forward(const Ports&, Stream&, Clock) override {}
  void backward(const Ports& ports, Stream& stream) override { layer_->backward(ports, stream); }

 private:
  std::unique_ptr<Layer> layer_;
};

/// A layer that is a part of the one before it.
class Nothing final : public Layer {
 public:
  void forward(const Ports&, Stream&, Clock) override {}
  void backward(const Ports&, Stream&) override {}
};

}  // namespace

std::vector<FusedNodes> fused_nodes(const model::Graph& graph) {
  using Kind = FusedNodes::Kind;
  std::vector<FusedNodes> all;
  for (std::size_t i = 0; i < graph.nodes.size(); ++i) {
    const model::Node& node = graph.nodes[i];
    if (is_scaled_batch_norm(graph, i)) {
      all.push_back(
          {Kind::kScaledBatchNorm, i, is_relu_over(graph, i + 2, graph.nodes[i + 1].tops[0])});
      continue;
    }
    if (node.tops.size() != 1 || has_loss_weight(node)) continue;
    if (!is_relu_over(graph, i + 1, node.tops[0])) continue;
    const pb::LayerParameter& definition = node.definition;
    if (definition.propagate_down_size() > 0) continue;
    // Without a bias the ReLU already is the only pass after the convolution, so fusing saves none.
    if (definition.type() == "Convolution" && definition.convolution_param().bias_term()) {
      all.push_back({Kind::kConvolution, i});
    } else if (definition.type() == "Eltwise" && node.bottoms.size() == 2 &&
               definition.eltwise_param().operation() == pb::EltwiseParameter::SUM) {
      all.push_back({Kind::kSum, i});
    }
  }
  return all;
}

LayerMaker::LayerMaker(const model::Graph& graph, Backend& backend)
    : backend_(backend), fusing_(fusing(backend)) {
  if (fusing_ != nullptr) fused_ = fused_nodes(graph);
}

LayerMaker::NodeLayer LayerMaker::make(const LayerSetup& setup) {
  try {
    NodeLayer fused = make_fused(setup);
    if (fused.layer) return fused;
  } catch (const std::invalid_argument& refused) {
    const pb::LayerParameter& definition = setup.node.definition;
    throw std::invalid_argument(
        fmt::format("layer \"{}\" ({}): {}", definition.name(), definition.type(), refused.what()));
  }
  return {.layer = make_layer(backend_, setup)};
}

/// Makes a node's layer if the node is fused with others; otherwise the result has no layer.
LayerMaker::NodeLayer LayerMaker::make_fused(const LayerSetup& setup) {
  using Kind = FusedNodes::Kind;
  for (const FusedNodes& nodes : fused_) {
    const std::size_t place = setup.index - nodes.first;  // wraps if the node comes before these
    if (nodes.kind == Kind::kScaledBatchNorm) {
      if (place == 0) {
        ScaledBatchNormLayers both = make_scaled_batch_norm(backend_, *fusing_, setup, nodes.relu);
        scale_ = std::move(both.scale);
        return {.layer = std::move(both.norm), .has_forward = false};
      }
      if (place == 1) return {.layer = std::move(scale_), .has_bottoms_before = true};
      if (place == 2 && nodes.relu) {
        return {.layer = std::make_unique<Nothing>(), .has_forward = false};
      }
      continue;
    }
    const bool is_sum = nodes.kind == Kind::kSum;
    if (place == 0) {
      return {.layer = is_sum ? make_rectified_sum(*fusing_, setup)
                              : make_rectified_convolution(*fusing_, setup)};
    }
    if (place == 1 && is_sum) return {.layer = std::make_unique<Nothing>(), .has_forward = false};
    if (place == 1) {
      return {.layer = std::make_unique<BackwardOnly>(make_layer(backend_, setup)),
              .has_forward = false};
    }
  }
  return {};
}

}  // namespace taut::layers
