#include "worker/model/parameters.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <string>

#include "common/did_you_mean.hpp"
#include "worker/model/extents.hpp"

namespace taut::model {
namespace {

math::Fan fan_of(const Shape& shape) {
  const auto count = static_cast<double>(element_count(shape));
  return {.in = count / static_cast<double>(shape[0]),
          .out = shape.size() > 1 ? count / static_cast<double>(shape[1]) : count};
}

math::FanMode fan_mode(pb::FillerParameter::VarianceNorm norm) {
  switch (norm) {
    case pb::FillerParameter::FAN_IN:
      return math::FanMode::kIn;
    case pb::FillerParameter::FAN_OUT:
      return math::FanMode::kOut;
    case pb::FillerParameter::AVERAGE:
      return math::FanMode::kAverage;
  }
  return math::FanMode::kIn;
}

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
  return TableSpec{.id = TableId(static_cast<std::uint32_t>(id)),
                   .name = name,
                   .shape = required.shape,
                   .kind = kind_of(required, spec),
                   .filler = filler.value(),
                   .lr_mult = spec.lr_mult(),
                   .decay_mult = spec.decay_mult()};
}

Result<math::Filler> settle_gaussian(const pb::FillerParameter& filler, const Shape& shape) {
  if (filler.std() < 0) {
    return invalid(fmt::format("is gaussian with std {}, which must be at least 0", filler.std()));
  }
  math::Filler settled{math::Filler::Kind::kGaussian, filler.mean(), filler.std()};
  if (filler.sparse() == -1) return settled;
  if (filler.sparse() < -1) {
    return invalid(fmt::format(
        "is gaussian with sparse {}, which must be at least 0, or -1 to keep all weights",
        filler.sparse()));
  }
  if (shape.empty()) {
    return invalid(fmt::format(
        "is gaussian with sparse {}, which requires a parameter with an axis of outputs",
        filler.sparse()));
  }
  if (filler.sparse() > shape[0]) {
    return invalid(
        fmt::format("is gaussian with sparse {}, but the parameter of shape {} has {} outputs: no "
                    "input can keep more weights",
                    filler.sparse(), to_string(shape), shape[0]));
  }
  settled.sparse = filler.sparse();
  settled.outputs = shape[0];
  return settled;
}

Result<math::Filler> settle_bilinear(const Shape& shape) {
  if (shape.size() == 4 && shape[2] == shape[3]) return math::bilinear(shape[3]);
  return invalid(
      fmt::format("is bilinear, which is for weights of four axes with square kernels, and the "
                  "parameter has shape {}",
                  to_string(shape)));
}

}  // namespace

Result<math::Filler> settle_filler(const pb::FillerParameter& filler, const Shape& shape) {
  for (const float value :
       {filler.value(), filler.min(), filler.max(), filler.mean(), filler.std()}) {
    if (!std::isfinite(value)) return invalid(fmt::format("has the number {}", value));
  }
  using Kind = math::Filler::Kind;
  if (filler.type() == "constant") return math::Filler{Kind::kConstant, filler.value(), 0};
  if (filler.type() == "uniform") {
    if (filler.min() <= filler.max()) {
      return math::Filler{Kind::kUniform, filler.min(), filler.max()};
    }
    return invalid(fmt::format("is uniform from {} to {}: min must not be greater than max",
                               filler.min(), filler.max()));
  }
  if (filler.type() == "gaussian") return settle_gaussian(filler, shape);
  if (filler.type() == "bilinear") return settle_bilinear(shape);
  if (filler.type() == "xavier") {
    return math::xavier(fan_of(shape), fan_mode(filler.variance_norm()));
  }
  if (filler.type() == "msra") {
    return math::msra(fan_of(shape), fan_mode(filler.variance_norm()));
  }
  constexpr std::array<std::string_view, 6> kTypes{"constant", "uniform", "gaussian",
                                                   "xavier",   "msra",    "bilinear"};
  return invalid(fmt::format("is of unknown type \"{}\"{}; known are {}", filler.type(),
                             did_you_mean(filler.type(), kTypes), fmt::join(kTypes, ", ")));
}

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
