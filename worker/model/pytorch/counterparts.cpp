#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <set>
#include <utility>

#include "worker/model/pytorch/state_dict.hpp"
#include "worker/model/rules/recurrent_ports.hpp"

namespace taut::model::pytorch {
namespace {

using Names = std::vector<std::string>;

/// The name of a layer as a module.
std::string module_of(const Node& node) {
  std::string name = node.definition.name();
  std::ranges::replace(name, '/', '.');
  return name;
}

class Finder {
 public:
  Finder(const Graph& graph, Renames renames) : graph_(graph), renames_(std::move(renames)) {}

  Result<std::vector<Counterpart>> run() {
    for (std::size_t i = 0; i < graph_.nodes.size(); ++i) add_layer(i);
    TAUT_TRY(renames_.check_used());
    std::map<std::string, std::size_t> tables;
    for (const Counterpart& one : found_) {
      if (one.tensor.empty()) continue;
      const auto [other, first] = tables.try_emplace(one.tensor, one.table);
      if (first || other->second == one.table) continue;
      return invalid(fmt::format(
          "\"{}\" and \"{}\" would both be PyTorch's \"{}\"; rename one "
          "with --names FILE",
          graph_.parameters[other->second].name, graph_.parameters[one.table].name, one.tensor));
    }
    return std::move(found_);
  }

 private:
  void add_layer(std::size_t index) {
    const Node& node = graph_.nodes[index];
    const std::string& type = node.definition.type();
    if (node.parameters.empty() || absorbed_.contains(index)) return;
    if (type == "BatchNorm") return add_batch_norm(index);
    if (type == "RNN" || type == "LSTM" || type == "GRU") return add_recurrent(node);
    const Names names = names_of(node);
    for (std::size_t i = 0; i < node.parameters.size(); ++i) {
      Counterpart& added = add(node, i, names[i]);
      if (type != "InnerProduct" || i > 0) continue;
      if (!node.definition.inner_product_param().transpose()) continue;
      added.layout = Layout::kTransposed;
      std::ranges::reverse(added.shape);
    }
  }

  /// The names of parameters that are stored in the same way on both sides.
  static Names names_of(const Node& node) {
    const pb::LayerParameter& layer = node.definition;
    if (layer.type() == "MultiHeadAttention") {
      if (!layer.attention_param().bias_term()) return {"in_proj_weight", "out_proj.weight"};
      return {"in_proj_weight", "in_proj_bias", "out_proj.weight", "out_proj.bias"};
    }
    const bool bias_only =
        layer.type() == "Bias" || (layer.type() == "Scale" && node.bottoms.size() > 1);
    return bias_only ? Names{"bias"} : Names{"weight", "bias"};
  }

  Counterpart& add(const Node& node, std::size_t parameter, const std::string& name) {
    const std::size_t table = node.parameters[parameter];
    found_.push_back({.table = table,
                      .tensor = renames_.apply(module_of(node) + "." + name),
                      .shape = graph_.parameters[table].shape});
    return found_.back();
  }

  /// A Scale whose numbers are those of the BatchNorm that it follows; nullptr if there is none.
  const Node* scale_behind(std::size_t index) {
    const std::size_t blob = graph_.nodes[index].tops[0];
    for (std::size_t i = index + 1; i < graph_.nodes.size(); ++i) {
      const Node& node = graph_.nodes[i];
      if (std::ranges::find(node.bottoms, blob) == node.bottoms.end()) continue;
      const pb::ScaleParameter& scale = node.definition.scale_param();
      const bool is_scale = node.definition.type() == "Scale" && node.bottoms.size() == 1 &&
                            scale.axis() == 1 && scale.num_axes() == 1;
      if (is_scale) absorbed_.insert(i);
      return is_scale ? &node : nullptr;
    }
    return nullptr;
  }

  void add_batch_norm(std::size_t index) {
    const Node& node = graph_.nodes[index];
    if (const Node* scale = scale_behind(index)) {
      const Names names{"weight", "bias"};
      for (std::size_t i = 0; i < scale->parameters.size(); ++i) {
        Counterpart& added = add(node, 0, names[i]);
        added.table = scale->parameters[i];
        added.shape = graph_.parameters[added.table].shape;
      }
    }
    // A power of two near the sums' weight after many batches: it changes no bits of the means, and
    // continued training moves them as slowly as before.
    const float fraction = node.definition.batch_norm_param().moving_average_fraction();
    const float batches = 1 / std::max(1 - fraction, 1.0F / (1 << 20));
    const float weight = std::exp2(std::round(std::log2(batches)));
    const Names names{"running_mean", "running_var"};
    for (std::size_t i = 0; i < names.size(); ++i) {
      Counterpart& added = add(node, i, names[i]);
      added.layout = Layout::kMean;
      added.weight = node.parameters[2];
      added.import_weight = weight;
    }
    found_.push_back({.table = node.parameters[2],
                      .tensor = {},
                      .shape = {},
                      .layout = Layout::kWeight,
                      .import_weight = weight});
  }

  void add_recurrent(const Node& node) {
    const pb::LayerParameter& layer = node.definition;
    const bool has_static = recurrent_ports(layer).has_static;
    const bool is_gru = layer.type() == "GRU";
    const Layout layout = layer.type() == "LSTM" ? Layout::kGates : Layout::kSame;
    std::size_t next = 0;
    const auto take = [&](const std::string& name) -> Counterpart& {
      Counterpart& added = add(node, next++, name);
      added.layout = layout;
      return added;
    };
    for (std::uint32_t i = 0; i < layer.recurrent_param().num_layers(); ++i) {
      take(fmt::format("weight_ih_l{}", i));
      Counterpart& bias = take(fmt::format("bias_ih_l{}", i));
      if (!is_gru) {
        bias.addend = renames_.apply(fmt::format("{}.bias_hh_l{}", module_of(node), i));
      }
      if (i == 0 && has_static) take("weight_x_static");
      take(fmt::format("weight_hh_l{}", i));
      if (is_gru) take(fmt::format("bias_hh_l{}", i));
    }
    if (next == node.parameters.size()) return;
    take("weight_o");
    take("bias_o");
  }

  const Graph& graph_;
  Renames renames_;
  std::set<std::size_t> absorbed_;  // Scales that belong to a BatchNorm
  std::vector<Counterpart> found_;
};

}  // namespace

Result<std::vector<Counterpart>> counterparts_of(const Graph& graph, const Renames& renames) {
  return Finder(graph, renames).run();
}

}  // namespace taut::model::pytorch
