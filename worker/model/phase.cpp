#include "worker/model/phase.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <string>
#include <unordered_map>

namespace taut::model {
namespace {

constexpr int kMostLayers = 10000;

bool has_stage(const pb::NetState& state, const std::string& stage) {
  return std::find(state.stage().begin(), state.stage().end(), stage) != state.stage().end();
}

/// Source: Caffe, src/caffe/net.cpp, Net::StateMeetsRule
bool holds(const pb::NetStateRule& rule, const pb::NetState& state) {
  if (rule.has_phase() && rule.phase() != state.phase()) return false;
  if (rule.has_min_level() && state.level() < rule.min_level()) return false;
  if (rule.has_max_level() && state.level() > rule.max_level()) return false;
  const auto given = [&](const std::string& stage) { return has_stage(state, stage); };
  return std::all_of(rule.stage().begin(), rule.stage().end(), given) &&
         std::none_of(rule.not_stage().begin(), rule.not_stage().end(), given);
}

template <class Rules>
bool any_holds(const Rules& rules, const pb::NetState& state) {
  return std::any_of(rules.begin(), rules.end(),
                     [&](const pb::NetStateRule& rule) { return holds(rule, state); });
}

bool takes_part(const pb::LayerParameter& layer, const pb::NetState& state) {
  if (layer.include_size() > 0) return any_holds(layer.include(), state);
  return !any_holds(layer.exclude(), state);
}

}  // namespace

Result<std::vector<pb::LayerParameter>> layers_of_phase(const pb::NetParameter& net,
                                                        pb::Phase phase) {
  if (net.layer_size() > kMostLayers) {
    return invalid(
        fmt::format("the net has {} layers, the limit is {}", net.layer_size(), kMostLayers));
  }
  pb::NetState state = net.state();
  state.set_phase(phase);
  std::vector<pb::LayerParameter> layers;
  std::unordered_map<std::string, std::string> type_of;
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
    const auto [first, is_new] = type_of.emplace(layer.name(), layer.type());
    if (!is_new) {
      return invalid(
          fmt::format("two layers of phase {} are named \"{}\" (types {} and {}): rename "
                      "one, or give them include rules",
                      pb::Phase_Name(phase), layer.name(), first->second, layer.type()));
    }
    layers.push_back(layer);
    layers.back().set_phase(phase);
  }
  return layers;
}

}  // namespace taut::model
