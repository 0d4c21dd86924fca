#include "proto/config/exchange/settle_rows.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "common/math/update_rules.hpp"
#include "proto/config/exchange/settle_exchange.hpp"
#include "proto/config/net_state.hpp"

namespace taut {
namespace {

using Steps = std::vector<PlacedText::Step>;

/// A field that cannot be combined with tables by rows, and why.
struct WithoutRows {
  Steps where;
  std::string field;  // as messages name it
  std::string why;
};

const pb::LayerParameter* layer_by_rows(const pb::Job& job) {
  const pb::NetState state = train_state(job);
  const auto& layers = job.net_param().layer();
  const auto found = std::ranges::find_if(layers, [&](const pb::LayerParameter& layer) {
    return layer.type() == "Embed" && layer.embed_param().by_rows() && takes_part(layer, state);
  });
  return found == layers.end() ? nullptr : &*found;
}

std::optional<WithoutRows> policy_without_rows(const pb::Consistency& consistency) {
  const auto policy = [](const char* field, const char* why) {
    return WithoutRows{{{"consistency"}, {field}}, fmt::format("consistency.{}", field), why};
  };
  if (consistency.backup_workers() > 0) {
    return policy("backup_workers", "workers that skip clocks do not name their rows");
  }
  if (consistency.has_delay_compensation()) {
    return policy("delay_compensation", "servers do not keep what each worker read of the rows");
  }
  if (consistency.has_elastic_averaging()) {
    return policy("elastic_averaging", "workers keep no separate values of the rows");
  }
  if (consistency.has_periodic_averaging()) {
    return policy("periodic_averaging", "workers keep no separate values of the rows");
  }
  if (consistency.look_ahead()) {
    return policy("look_ahead", "rows are not kept ahead along their velocities");
  }
  return std::nullopt;
}

std::optional<WithoutRows> solver_without_rows(const pb::SolverParameter& solver) {
  const auto field = [](const char* name, const std::string& value, const char* why) {
    return WithoutRows{
        {{"solver_param"}, {name}}, fmt::format("the solver's {} {}", name, value), why};
  };
  const std::optional<math::RuleKind> kind = math::rule_of_type(solver.type());
  if (kind && math::needs_table_norms(*kind)) {
    return field("type", solver.type(), "its norms are of whole tables");
  }
  if (solver.clip_gradients() > 0) {
    return field("clip_gradients", fmt::format("{}", solver.clip_gradients()),
                 "the norm is of all gradients together");
  }
  if (solver.iter_size() > 1) {
    return field("iter_size", fmt::format("{}", solver.iter_size()),
                 "the batches of a clock name different rows");
  }
  return std::nullopt;
}

std::optional<WithoutRows> field_without_rows(const pb::Job& job) {
  if (exchanges_at_workers(job)) {
    return WithoutRows{
        {{"exchange"}, {"type"}},
        fmt::format("exchange.type {}", pb::WorkerExchange::Type_Name(job.exchange().type())),
        "the rows are at the servers alone"};
  }
  if (auto found = policy_without_rows(job.consistency())) return found;
  if (job.has_compression()) {
    return WithoutRows{{{"compression"}}, "compression", "rows are sent as they are"};
  }
  if (job.has_followers()) {
    return WithoutRows{{{"followers"}}, "followers", "a follower reads whole tables"};
  }
  if (job.balance()) {
    return WithoutRows{
        {{"balance"}}, "balance", "how many rows a batch names is settled at the start"};
  }
  return solver_without_rows(job.solver_param());
}

}  // namespace

std::optional<FieldMisfit> misfit_of_rows(const pb::Job& job) {
  const pb::LayerParameter* const layer = layer_by_rows(job);
  if (layer == nullptr) return std::nullopt;
  auto unfit = field_without_rows(job);
  if (!unfit) return std::nullopt;
  return FieldMisfit{
      std::move(unfit->where),
      fmt::format("{} cannot be combined with embed_param.by_rows of \"{}\": {}; omit one of them",
                  unfit->field, layer->name(), unfit->why)};
}

}  // namespace taut
