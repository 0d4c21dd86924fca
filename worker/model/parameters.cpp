#include "worker/model/parameters.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <string>

#include "proto/config/settle_filler.hpp"
#include "worker/model/extents.hpp"

namespace taut::model {
namespace {

Result<void> check_multiplier(const std::string& table, const char* field, float value) {
  if (std::isfinite(value) && value >= 0) return ok();
  return invalid(
      fmt::format("{} of parameter \"{}\" must be at least 0, is {}", field, table, value));
}

/// A layer that shares a table may repeat or omit its multipliers, but not change them.
Result<void> check_shared(const TableSpec& table, const RequiredParameter& required,
                          const pb::ParamSpec& spec) {
  if (table.kind == TableKind::kAveraged || required.kind == TableKind::kAveraged) {
    return invalid(
        fmt::format("parameter \"{}\" is shared: running statistics belong to one layer; give "
                    "them another name, or none",
                    table.name));
  }
  if (table.rows || required.rows) {
    return invalid(fmt::format(
        "parameter \"{}\" is shared: one kept by rows (embed_param.by_rows) belongs to one layer; "
        "give it no name, or omit by_rows",
        table.name));
  }
  if (table.shape != required.shape) {
    return invalid(
        fmt::format("parameter \"{}\" is shared: it has shape {} in an earlier layer, but "
                    "{} here",
                    table.name, to_string(table.shape), to_string(required.shape)));
  }
  if (spec.has_lr_mult() && spec.lr_mult() != table.lr_mult) {
    return invalid(
        fmt::format("parameter \"{}\" is shared: its lr_mult is {} in an earlier layer, "
                    "but {} here",
                    table.name, table.lr_mult, spec.lr_mult()));
  }
  if (spec.has_decay_mult() && spec.decay_mult() != table.decay_mult) {
    return invalid(
        fmt::format("parameter \"{}\" is shared: its decay_mult is {} in an earlier "
                    "layer, but {} here",
                    table.name, table.decay_mult, spec.decay_mult()));
  }
  return ok();
}

TableKind kind_of(const RequiredParameter& required, const pb::ParamSpec& spec) {
  if (required.kind != TableKind::kTrained) return required.kind;
  return spec.lr_mult() == 0 ? TableKind::kFrozen : TableKind::kTrained;
}

Result<TableSpec> new_table(const std::string& name, std::size_t id,
                            const RequiredParameter& required, const pb::ParamSpec& spec) {
  TAUT_TRY(check_shape(required.shape, fmt::format("parameter \"{}\"", name)));
  TAUT_TRY(check_multiplier(name, "lr_mult", spec.lr_mult()));
  TAUT_TRY(check_multiplier(name, "decay_mult", spec.decay_mult()));
  auto filler = settle_filler(required.filler, required.shape);
  if (!filler) {
    return invalid(fmt::format("{}_filler {}", required.suffix, filler.error().message));
  }
  TableSpec table{.id = TableId(static_cast<std::uint32_t>(id)),
                  .name = name,
                  .shape = required.shape,
                  .kind = kind_of(required, spec),
                  .filler = filler.value(),
                  .lr_mult = spec.lr_mult(),
                  .decay_mult = spec.decay_mult()};
  if (!required.rows) return table;
  if (!spec.name().empty()) {
    return invalid(fmt::format(
        "parameter \"{}\" is kept by rows, which belong to one layer: omit the name", name));
  }
  if (table.kind == TableKind::kFrozen) {
    return invalid(fmt::format(
        "parameter \"{}\" is kept by rows, and lr_mult 0 updates none of them; omit by_rows",
        name));
  }
  table.rows = required.rows->table;
  table.shape[0] = required.rows->of_batch;
  return table;
}

}  // namespace

Result<std::vector<std::size_t>> add_parameters(const pb::LayerParameter& layer,
                                                const std::vector<RequiredParameter>& required,
                                                std::vector<TableSpec>& tables) {
  if (static_cast<std::size_t>(layer.param_size()) > required.size()) {
    return invalid(fmt::format("param is given {} times, but the layer has {} parameters",
                               layer.param_size(), required.size()));
  }
  std::vector<std::size_t> indices;
  for (std::size_t i = 0; i < required.size(); ++i) {
    const bool specified = i < static_cast<std::size_t>(layer.param_size());
    const pb::ParamSpec& spec =
        specified ? layer.param(static_cast<int>(i)) : pb::ParamSpec::default_instance();
    const std::string name =
        spec.name().empty() ? layer.name() + "/" + required[i].suffix : spec.name();
    const auto shared = std::find_if(tables.begin(), tables.end(),
                                     [&](const TableSpec& table) { return table.name == name; });
    indices.push_back(static_cast<std::size_t>(shared - tables.begin()));
    if (shared != tables.end()) {
      TAUT_TRY(check_shared(*shared, required[i], spec));
    } else {
      TAUT_TRY(TableSpec table, new_table(name, tables.size(), required[i], spec));
      tables.push_back(std::move(table));
    }
  }
  return indices;
}

}  // namespace taut::model
