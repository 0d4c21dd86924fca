#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <unordered_map>
#include <unordered_set>
#include <utility>

#include "common/did_you_mean.hpp"
#include "proto/config/net_state.hpp"
#include "worker/model/extents.hpp"
#include "worker/model/gradients.hpp"
#include "worker/model/graph.hpp"
#include "worker/model/parameters.hpp"
#include "worker/model/phase.hpp"
#include "worker/model/row_parameters.hpp"
#include "worker/model/rules/layer_rule.hpp"
#include "worker/model/upgrade.hpp"

namespace taut::model {
namespace {

/// Builds a graph layer by layer.
class Assembly {
 public:
  /// net     in the current vocabulary, with the layers of all phases
  /// layers  the graph's phase's, which will be added
  Assembly(const pb::NetParameter& net, const std::vector<pb::LayerParameter>& layers,
           const GraphOptions& options)
      : net_(net), options_(options) {
    for (const pb::LayerParameter& layer : layers) {
      named_tops_.insert(layer.top().begin(), layer.top().end());
    }
    graph_.name = net.name();
    graph_.phase = options.phase;
  }

  /// Errors: invalid, without the layer's name.
  Result<void> add(pb::LayerParameter layer) {
    TAUT_TRY(const LayerRule* rule, find_rule(layer.type()));
    if (rule->is_loss && layer.top_size() == 0) layer.add_top(automatic_top(layer));
    TAUT_TRY(check_counts(layer, *rule));
    Node node;
    TAUT_TRY(node.bottoms, find_bottoms(layer));
    std::vector<Shape> bottom_shapes;
    for (const std::size_t bottom : node.bottoms) {
      bottom_shapes.push_back(graph_.blobs[bottom].shape);
    }
    TAUT_TRY(const LayerShapes shapes,
             of_type(*rule, rule->settle(layer, bottom_shapes, options_)));
    TAUT_TRY(node.loss_weights, of_type(*rule, loss_weights_of(layer, *rule, shapes)));
    TAUT_TRY(check_owner(layer, shapes));
    TAUT_TRY(node.parameters,
             of_type(*rule, add_parameters(layer, shapes.parameters, graph_.parameters)));
    TAUT_TRY(node.passes_gradient, passes_gradient(layer, *rule));
    for (const std::size_t bottom : node.bottoms) ++states_[bottom].readers;
    TAUT_TRY(node.tops, add_tops(layer, *rule, shapes.tops, node.passes_gradient));
    for (std::size_t i = 0; i < node.tops.size(); ++i) {
      // The loss is read after the whole net has run.
      if (node.loss_weights[i] != 0) states_[node.tops[i]].must_stay = true;
    }
    node.is_fed = rule->is_fed;
    node.is_loss = rule->is_loss;
    node.definition = std::move(layer);
    graph_.nodes.push_back(std::move(node));
    return ok();
  }

  /// Errors: as mark_gradients().
  Result<Graph> finish() && {
    for (std::size_t blob = 0; blob < graph_.blobs.size(); ++blob) {
      if (states_[blob].readers == 0) graph_.outputs.push_back(blob);
    }
    TAUT_TRY(mark_gradients(graph_));
    return std::move(graph_);
  }

 private:
  struct BlobState {
    int readers = 0;              // since it was last written
    bool must_stay = false;       // its last writer's LayerRule::top_must_stay
    bool sign_must_stay = false;  // LayerRule::top_sign_must_stay of any of its writers
  };

  /// Prefixes the message with the layer's type.
  template <class T>
  static Result<T> of_type(const LayerRule& rule, Result<T> result) {
    if (result) return result;
    return invalid(fmt::format("({}): {}", rule.type, result.error().message));
  }

  static Result<void> check_count(const char* what, int count, std::size_t min, std::size_t max) {
    const auto given = static_cast<std::size_t>(count);
    if (given >= min && given <= max) return ok();
    const std::string expected =
        min == max ? std::to_string(min) : fmt::format("{} to {}", min, max);
    return invalid(fmt::format("requires {} {}{}, but has {}", expected, what,
                               min == 1 && max == 1 ? "" : "s", given));
  }

  static Result<void> check_counts(const pb::LayerParameter& layer, const LayerRule& rule) {
    TAUT_TRY(check_count("bottom", layer.bottom_size(), rule.min_bottoms, rule.max_bottoms));
    return check_count("top", layer.top_size(), rule.min_tops, rule.max_tops);
  }

  [[nodiscard]] Result<std::vector<std::size_t>> find_bottoms(
      const pb::LayerParameter& layer) const {
    std::vector<std::size_t> bottoms;
    for (const std::string& name : layer.bottom()) {
      const auto found = newest_.find(name);
      if (found == newest_.end()) {
        std::vector<std::string> names;
        for (const auto& [known, blob] : newest_) names.push_back(known);
        std::sort(names.begin(), names.end());
        return invalid(fmt::format("requires bottom \"{}\", which no earlier layer produces{}",
                                   name, kept_out(name).value_or(did_you_mean(name, names))));
      }
      bottoms.push_back(found->second);
    }
    return bottoms;
  }

  /// The layer that produces the blob but takes no part in this phase, level and stages, if any.
  [[nodiscard]] std::optional<std::string> kept_out(const std::string& blob) const {
    pb::NetState state = net_.state();
    state.set_phase(options_.phase);
    for (const pb::LayerParameter& layer : net_.layer()) {
      if (takes_part(layer, state) || std::ranges::find(layer.top(), blob) == layer.top().end()) {
        continue;
      }
      return fmt::format(
          "; layer \"{}\" does, but its include and exclude rules keep it out of phase {}, level "
          "{}, {}",
          layer.name(), pb::Phase_Name(options_.phase), state.level(),
          state.stage_size() == 0 ? std::string("no stage")
                                  : fmt::format("stage {}", fmt::join(state.stage(), ", ")));
    }
    return std::nullopt;
  }

  /// Caffe adds a top to a loss that has none. It is named after the layer; if another layer's top
  /// already has or will have that name, the name is derived from it.
  [[nodiscard]] std::string automatic_top(const pb::LayerParameter& layer) const {
    const auto is_free = [&](const std::string& name) {
      return !newest_.contains(name) && !named_tops_.contains(name);
    };
    std::string name = layer.name();
    for (int number = 1; !is_free(name); ++number) {
      name = layer.name() +
             (number == 1 ? std::string(" (automatic)") : fmt::format(" (automatic {})", number));
    }
    return name;
  }

  /// Parameters are named after their layer, also in weights files. Layers without parameters may
  /// share a name, as the two losses of Caffe's autoencoder do.
  Result<void> check_owner(const pb::LayerParameter& layer, const LayerShapes& shapes) {
    if (shapes.parameters.empty()) return ok();
    const auto [first, is_new] = owners_.emplace(layer.name(), layer.type());
    if (is_new) return ok();
    return invalid(
        fmt::format("({}): a layer with parameters has this name already (type {}): rename one, or "
                    "give them include rules",
                    layer.type(), first->second));
  }

  static Result<std::vector<float>> loss_weights_of(const pb::LayerParameter& layer,
                                                    const LayerRule& rule,
                                                    const LayerShapes& shapes) {
    std::vector<float> weights(static_cast<std::size_t>(layer.top_size()), 0.0F);
    if (rule.is_loss) weights[0] = 1;
    if (layer.loss_weight_size() == 0) return weights;
    if (layer.loss_weight_size() != layer.top_size()) {
      return invalid(fmt::format("loss_weight is given {} times for {} tops",
                                 layer.loss_weight_size(), layer.top_size()));
    }
    weights.assign(layer.loss_weight().begin(), layer.loss_weight().end());
    for (std::size_t i = 0; i < weights.size(); ++i) {
      if (weights[i] == 0 || (rule.is_loss && i == 0)) continue;
      if (const std::string why = why_no_loss(rule, shapes, i); !why.empty()) {
        return invalid(fmt::format("loss_weight of top \"{}\" is {}: {}",
                                   layer.top(static_cast<int>(i)), weights[i], why));
      }
    }
    return weights;
  }

  /// Why this top of a layer that is not a loss cannot be one, which must be a single number with a
  /// gradient; "" if it can.
  static std::string why_no_loss(const LayerRule& rule, const LayerShapes& shapes,
                                 std::size_t top) {
    if (rule.is_loss) return "only the first top of a loss layer can be a loss";
    if (rule.is_fed || (rule.differentiable_bottoms == 0 && shapes.parameters.empty())) {
      return "nothing learns from it, as the layer has no gradient";
    }
    if (element_count(shapes.tops[top]) == 1) return "";
    return fmt::format(
        "a loss is one number, but the top has shape {}; put a Reduction layer after it",
        to_string(shapes.tops[top]));
  }

  static Result<std::vector<bool>> passes_gradient(const pb::LayerParameter& layer,
                                                   const LayerRule& rule) {
    const auto bottoms = static_cast<std::size_t>(layer.bottom_size());
    const auto given = static_cast<std::size_t>(layer.propagate_down_size());
    if (given != 0 && given != bottoms) {
      return invalid(
          fmt::format("propagate_down is given {} times for {} bottoms", given, bottoms));
    }
    std::vector<bool> passes(bottoms);
    for (std::size_t k = 0; k < bottoms; ++k) {
      passes[k] = k < rule.differentiable_bottoms && k != rule.marker_bottom &&
                  (given == 0 || layer.propagate_down(static_cast<int>(k)));
    }
    return passes;
  }

  /// passes_gradient  for each bottom: a blob has one gradient, so a layer that stops it makes a
  ///                  new blob
  Result<std::vector<std::size_t>> add_tops(const pb::LayerParameter& layer, const LayerRule& rule,
                                            const std::vector<Shape>& shapes,
                                            const std::vector<bool>& passes_gradient) {
    std::vector<std::size_t> tops;
    for (int i = 0; i < layer.top_size(); ++i) {
      const std::string& name = layer.top(i);
      const Shape& shape = shapes[static_cast<std::size_t>(i)];
      TAUT_TRY(of_type(rule, check_shape(shape, fmt::format("top \"{}\"", name))));
      const bool named_as_bottom = i < layer.bottom_size() && layer.bottom(i) == name;
      TAUT_TRY(check_name(layer, rule, name, named_as_bottom));
      const bool is_over = named_as_bottom && passes_gradient[static_cast<std::size_t>(i)] &&
                           may_write_over(rule, newest_[name]);
      tops.push_back(is_over ? newest_[name] : new_blob(name, shape));
      BlobState& state = states_[tops.back()];
      state = {.readers = 0,
               .must_stay = rule.top_must_stay,
               .sign_must_stay = state.sign_must_stay || rule.top_sign_must_stay};
    }
    return tops;
  }

  Result<void> check_name(const pb::LayerParameter& layer, const LayerRule& rule,
                          const std::string& name, bool named_as_bottom) {
    if (named_as_bottom) {
      if (rule.in_place != InPlace::kNever) {
        makers_[name] = layer.name();
        return ok();
      }
      return invalid(fmt::format("has \"{}\" as bottom and as top: {} does not work in place", name,
                                 layer.type()));
    }
    const auto [maker, is_new] = makers_.emplace(name, layer.name());
    if (is_new) return ok();
    return invalid(fmt::format("produces top \"{}\", which layer \"{}\" produces already", name,
                               maker->second));
  }

  /// A blob may be overwritten only by its only reader, and only if the layer that produced it no
  /// longer needs the values.
  bool may_write_over(const LayerRule& rule, std::size_t blob) const {
    const BlobState& state = states_[blob];
    return rule.in_place == InPlace::kOver && !state.must_stay && state.readers == 1 &&
           (rule.keeps_sign || !state.sign_must_stay);
  }

  std::size_t new_blob(const std::string& name, const Shape& shape) {
    graph_.blobs.push_back({.name = name, .shape = shape});
    states_.emplace_back();
    return newest_[name] = graph_.blobs.size() - 1;
  }

  const pb::NetParameter& net_;
  const GraphOptions& options_;
  Graph graph_;
  std::unordered_set<std::string> named_tops_;           // of all layers, including later ones
  std::unordered_map<std::string, std::size_t> newest_;  // the blob that a name refers to now
  std::unordered_map<std::string, std::string> makers_;  // the layer that last wrote a name
  std::unordered_map<std::string, std::string> owners_;  // types of layers with parameters
  std::vector<BlobState> states_;                        // for each blob
};

}  // namespace

Result<Graph> build_graph(const pb::NetParameter& net, const GraphOptions& options) {
  TAUT_TRY(const pb::NetParameter current, upgrade_net(net));
  TAUT_TRY(std::vector<pb::LayerParameter> layers, layers_of_phase(current, options.phase));
  Assembly assembly(current, layers, options);
  for (pb::LayerParameter& layer : layers) {
    const std::string title = fmt::format("layer \"{}\"", layer.name());
    if (auto added = assembly.add(std::move(layer)); !added) {
      return invalid(fmt::format("{} {}", title, added.error().message));
    }
  }
  TAUT_TRY(Graph graph, std::move(assembly).finish());
  TAUT_TRY(check_row_parameters(graph));
  return graph;
}

std::vector<std::size_t> fed_blobs(const Graph& graph) {
  std::vector<std::size_t> blobs;
  for (const Node& node : graph.nodes) {
    if (node.is_fed) blobs.insert(blobs.end(), node.tops.begin(), node.tops.end());
  }
  return blobs;
}

}  // namespace taut::model
