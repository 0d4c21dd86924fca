#include "proto/config/net_state.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <string>

namespace taut {
namespace {

bool has_stage(const pb::NetState& state, const std::string& stage) {
  return std::find(state.stage().begin(), state.stage().end(), stage) != state.stage().end();
}

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

std::int64_t batch_of(const pb::LayerParameter& layer) {
  if (layer.data_param().has_batch_size()) return layer.data_param().batch_size();
  if (layer.has_hdf5_data_param()) return layer.hdf5_data_param().batch_size();
  if (layer.has_image_data_param()) return layer.image_data_param().batch_size();
  if (layer.has_sparse_data_param()) return layer.sparse_data_param().batch_size();
  const pb::DummyDataParameter& dummy = layer.dummy_data_param();
  if (dummy.num_size() > 0) return dummy.num(0);
  if (dummy.shape_size() > 0 && dummy.shape(0).dim_size() > 0) return dummy.shape(0).dim(0);
  return 0;
}

}  // namespace

bool takes_part(const pb::LayerParameter& layer, const pb::NetState& state) {
  if (layer.include_size() > 0) return any_holds(layer.include(), state);
  return !any_holds(layer.exclude(), state);
}

pb::NetState train_state(const pb::Job& job) {
  pb::NetState state = job.net_param().state();
  state.MergeFrom(job.solver_param().train_state());
  state.set_phase(pb::TRAIN);
  return state;
}

Result<std::int64_t> batch_of_text(const pb::Job& job) {
  const pb::NetState state = train_state(job);
  for (const pb::LayerParameter& layer : job.net_param().layer()) {
    if (takes_part(layer, state) && batch_of(layer) > 0) return batch_of(layer);
  }
  return invalid(
      fmt::format("no data layer of net \"{}\" gives a batch_size", job.net_param().name()));
}

const pb::LayerParameter* layer_of_rows(const pb::Job& job, std::string_view table) {
  const pb::NetState state = train_state(job);
  for (const pb::LayerParameter& layer : job.net_param().layer()) {
    const bool is_by_rows = layer.type() == "Embed" && layer.embed_param().by_rows();
    // Such a layer has no other parameter, and cannot give it another name.
    if (is_by_rows && takes_part(layer, state) && table == layer.name() + "/weight") return &layer;
  }
  return nullptr;
}

}  // namespace taut
