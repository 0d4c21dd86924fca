#include <fmt/format.h>

#include <algorithm>
#include <stdexcept>

#include "common/check.hpp"
#include "worker/layers/net.hpp"

namespace taut {
namespace {

bool contains(const std::vector<std::size_t>& list, std::size_t item) {
  return std::ranges::find(list, item) != list.end();
}

/// Refuses a bottom without a gradient that depends on a parameter: the parameter could not learn.
/// A Crop's second bottom is exempt: only its shape is used.
void check_labels(const model::Graph& graph, const model::Node& node) {
  if (!node.needs_backward || node.definition.propagate_down_size() > 0) return;
  if (node.definition.type() == "Crop") return;
  for (std::size_t k = 0; k < node.bottoms.size(); ++k) {
    if (node.passes_gradient[k] || !graph.blobs[node.bottoms[k]].needs_gradient) continue;
    throw std::invalid_argument(
        fmt::format("layer \"{}\" ({}): its bottom \"{}\" depends on a parameter and has no "
                    "gradient here; say propagate_down: false for it if that is meant",
                    node.definition.name(), node.definition.type(),
                    node.definition.bottom(static_cast<int>(k))));
  }
}

bool has_statistics(const model::Graph& graph, const model::Node& node) {
  return graph.phase == pb::TRAIN &&
         std::ranges::any_of(node.parameters, [&](std::size_t parameter) {
           return graph.parameters[parameter].kind == TableKind::kAveraged;
         });
}

bool is_in_place(const model::Node& node, std::size_t bottom) {
  return contains(node.tops, node.bottoms[bottom]);
}

}  // namespace

void Net::allocate_blobs() {
  for (const model::Blob& blob : graph_.blobs) {
    const std::size_t count = model::element_count(blob.shape);
    Tensor& tensor = blobs_.emplace_back();
    tensor.value = new_floats(count, BufferKind::kActivation, blob.name);
    if (blob.needs_gradient)
      tensor.gradient = new_floats(count, BufferKind::kGradient, "gradient of " + blob.name);
  }
}

bool Net::needs_gradient(std::size_t layer, std::size_t bottom) const {
  const model::Node& node = graph_.nodes[layer];
  return node.needs_backward && node.passes_gradient[bottom] &&
         graph_.blobs[node.bottoms[bottom]].needs_gradient;
}

void Net::make_steps(const Options& options) {
  layers::LayerMaker maker(graph_, backend_);
  for (std::size_t index = 0; index < graph_.nodes.size(); ++index) {
    const model::Node& node = graph_.nodes[index];
    Step& step = steps_.emplace_back();
    check_labels(graph_, node);
    step.has_statistics = has_statistics(graph_, node);
    LayerSetup setup{.node = node,
                     .bottoms = {},
                     .tops = {},
                     .bottom_gradients = {},
                     .training = graph_.phase == pb::TRAIN,
                     .begins_at_start =
                         node.bottoms.size() > 1 && model::begins_at_start(graph_, node.bottoms[1]),
                     .seed = options.seed,
                     .slot = options.slot,
                     .index = static_cast<std::uint32_t>(index)};
    for (std::size_t k = 0; k < node.bottoms.size(); ++k) {
      setup.bottoms.push_back(graph_.blobs[node.bottoms[k]].shape);
      setup.bottom_gradients.push_back(needs_gradient(index, k));
      Tensor bottom = blobs_[node.bottoms[k]];
      if (!needs_gradient(index, k)) bottom.gradient = {};
      step.bottoms.push_back(bottom);
    }
    for (const std::size_t top : node.tops) {
      setup.tops.push_back(graph_.blobs[top].shape);
      step.tops.push_back(blobs_[top]);
    }
    step.parameters.resize(node.parameters.size());
    step.partial.resize(node.parameters.size());
    if (node.is_fed) continue;
    layers::LayerMaker::NodeLayer node_layer = maker.make(setup);
    step.layer = std::move(node_layer.layer);
    step.has_forward = node_layer.has_forward;
    step.has_bottoms_before = node_layer.has_bottoms_before;
  }
}

/// Backward runs from the last layer down, so a blob's last reader writes its gradient and the
/// others add theirs. A layer in place turns its top's gradient into its bottom's.
void Net::share_bottom_gradients() {
  std::vector<bool> written(blobs_.size(), false);
  for (std::size_t index = steps_.size(); index-- > 0;) {
    const model::Node& node = graph_.nodes[index];
    weigh_tops(index, written);
    for (std::size_t k = 0; k < node.bottoms.size(); ++k) {
      if (!needs_gradient(index, k) || is_in_place(node, k)) continue;
      Tensor& bottom = steps_[index].bottoms[k];
      if (written[node.bottoms[k]]) {
        const DeviceSpan<float> total = bottom.gradient;
        bottom.gradient = new_floats(total.size(), BufferKind::kGradient,
                                     "gradient of " + graph_.blobs[node.bottoms[k]].name);
        steps_[index].bottom_sums.push_back({bottom.gradient, total});
      }
      written[node.bottoms[k]] = true;
    }
  }
}

/// written  the blobs whose gradients the layers below this one write
void Net::weigh_tops(std::size_t layer, const std::vector<bool>& written) {
  const model::Node& node = graph_.nodes[layer];
  if (node.is_loss || !node.needs_backward) return;
  for (std::size_t i = 0; i < node.tops.size(); ++i) {
    const DeviceSpan<float> gradient = blobs_[node.tops[i]].gradient;
    if (node.loss_weights[i] == 0 || gradient.empty()) continue;
    WeightedTop& top = steps_[layer].weighted_tops.emplace_back();
    top.weight = node.loss_weights[i];
    top.gradient = gradient;
    if (!written[node.tops[i]]) continue;
    top.part =
        new_floats(1, BufferKind::kActivation, "loss weight of " + graph_.blobs[node.tops[i]].name);
  }
}

/// Sums the gradients of a parameter that several layers share; the first of them completes it.
void Net::share_parameter_gradients() {
  if (graph_.phase != pb::TRAIN) return;
  for (std::size_t parameter = 0; parameter < parameters_.size(); ++parameter) {
    if (graph_.parameters[parameter].kind == TableKind::kFrozen) continue;
    Step* last_of_backward = nullptr;
    for (std::size_t index = steps_.size(); index-- > 0;) {
      const model::Node& node = graph_.nodes[index];
      const bool has_backward = node.needs_backward || steps_[index].has_statistics;
      for (std::size_t k = 0; has_backward && k < node.parameters.size(); ++k) {
        if (node.parameters[k] != parameter) continue;
        if (last_of_backward != nullptr) {
          const TableSpec& table = graph_.parameters[parameter];
          steps_[index].partial[k] = new_floats(table.count(), BufferKind::kGradient,
                                                "gradient of parameter " + table.name);
        }
        last_of_backward = &steps_[index];
      }
    }
    if (last_of_backward == nullptr) {
      const auto user = std::ranges::find_if(graph_.nodes, [&](const model::Node& node) {
        return contains(node.parameters, parameter);
      });
      TAUT_CHECK(user != graph_.nodes.end(), "every parameter belongs to a layer");
      last_of_backward = &steps_[static_cast<std::size_t>(user - graph_.nodes.begin())];
      last_of_backward->without_gradient.push_back(parameter);
    }
    last_of_backward->gradients_after.push_back(parameter);
  }
}

void Net::find_runs() {
  forward_runs_.resize(steps_.size());
  backward_runs_.resize(steps_.size());
  std::size_t begin = 0;
  for (std::size_t layer = 1; layer <= steps_.size(); ++layer) {
    if (layer < steps_.size() && graph_.nodes[layer].parameters.empty()) continue;
    const bool queues_something =
        std::any_of(steps_.begin() + static_cast<std::ptrdiff_t>(begin),
                    steps_.begin() + static_cast<std::ptrdiff_t>(layer),
                    [](const Step& step) { return step.layer != nullptr && step.has_forward; });
    if (queues_something) forward_runs_[begin] = {begin, layer};
    begin = layer;
  }
  std::size_t end = steps_.size();
  for (std::size_t layer = steps_.size(); layer-- > 0;) {
    if (layer > 0 && steps_[layer].gradients_after.empty()) continue;
    backward_runs_[layer] = {layer, end};
    end = layer;
  }
}

}  // namespace taut
