#include "worker/model/phase.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <string>
#include <unordered_map>

#include "proto/config/net_state.hpp"
#include "worker/model/rules/layer_rule.hpp"

namespace taut::model {
namespace {

constexpr int kMaxLayers = 10000;

/// Jobs assign data to layers by name.
bool is_fed(const pb::LayerParameter& layer) {
  const auto rule = find_rule(layer.type());
  return rule && rule.value()->is_fed;
}

template <class Layers>
void add_stages(const Layers& layers, std::vector<std::string>& stages) {
  const auto add = [&](const std::string& stage) {
    if (std::ranges::find(stages, stage) == stages.end()) stages.push_back(stage);
  };
  for (const auto& layer : layers) {
    for (const auto* rules : {&layer.include(), &layer.exclude()}) {
      for (const pb::NetStateRule& rule : *rules) {
        std::ranges::for_each(rule.stage(), add);
        std::ranges::for_each(rule.not_stage(), add);
      }
    }
  }
}

}  // namespace

std::vector<std::string> stages_of(const pb::NetParameter& net) {
  std::vector<std::string> stages;
  add_stages(net.layer(), stages);
  add_stages(net.layers(), stages);
  return stages;
}

Result<std::vector<pb::LayerParameter>> layers_of_phase(const pb::NetParameter& net,
                                                        pb::Phase phase) {
  if (net.layer_size() > kMaxLayers) {
    return invalid(
        fmt::format("the net has {} layers, the limit is {}", net.layer_size(), kMaxLayers));
  }
  pb::NetState state = net.state();
  state.set_phase(phase);
  std::vector<pb::LayerParameter> layers;
  std::unordered_map<std::string, std::string> fed;  // a data layer's type, by its name
  for (int i = 0; i < net.layer_size(); ++i) {
    const pb::LayerParameter& layer = net.layer(i);
    if (layer.name().empty()) {
      return invalid(
          fmt::format("layer {} (type \"{}\") has no name: its parameters and messages "
                      "need one",
                      i, layer.type()));
    }
    if (layer.include_size() > 0 && layer.exclude_size() > 0) {
      return invalid(
          fmt::format("layer \"{}\" has include and exclude rules: give one kind", layer.name()));
    }
    if (!takes_part(layer, state)) continue;
    if (is_fed(layer)) {
      const auto [first, is_new] = fed.emplace(layer.name(), layer.type());
      if (!is_new) {
        return invalid(
            fmt::format("two data layers of phase {} are named \"{}\" (types {} and {}): rename "
                        "one, or give them include rules",
                        pb::Phase_Name(phase), layer.name(), first->second, layer.type()));
      }
    }
    layers.push_back(layer);
    layers.back().set_phase(phase);
  }
  return layers;
}

}  // namespace taut::model
