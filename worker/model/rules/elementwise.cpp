#include <fmt/format.h>

#include <cmath>
#include <initializer_list>

#include "worker/model/extents.hpp"
#include "worker/model/rules/rules.hpp"

namespace taut::model::rules {
namespace {

Result<void> check_finite(const char* field, std::initializer_list<float> values) {
  for (const float value : values) {
    if (!std::isfinite(value)) return invalid(fmt::format("{} has the number {}", field, value));
  }
  return ok();
}

Result<void> check_base(const char* field, float base) {
  if (base == -1 || (base > 0 && std::isfinite(base))) return ok();
  return invalid(fmt::format("{}.base must be greater than 0, or -1 for e, is {}", field, base));
}

Result<LayerShapes> settle_unchanged(const pb::LayerParameter&, const Shapes& bottoms,
                                     const GraphOptions&) {
  return LayerShapes{{bottoms[0]}, {}};
}

Result<LayerShapes> settle_relu(const pb::LayerParameter& layer, const Shapes& bottoms,
                                const GraphOptions&) {
  const float slope = layer.relu_param().negative_slope();
  if (!(slope >= 0 && std::isfinite(slope))) {
    return invalid(fmt::format("relu_param.negative_slope must be at least 0, is {}", slope));
  }
  return LayerShapes{{bottoms[0]}, {}};
}

Result<LayerShapes> settle_dropout(const pb::LayerParameter& layer, const Shapes& bottoms,
                                   const GraphOptions&) {
  const float ratio = layer.dropout_param().dropout_ratio();
  if (!(ratio >= 0 && ratio < 1)) {
    return invalid(fmt::format("dropout_param.dropout_ratio must be in [0, 1), is {}", ratio));
  }
  return LayerShapes{{bottoms[0]}, {}};
}

Result<LayerShapes> settle_elu(const pb::LayerParameter& layer, const Shapes& bottoms,
                               const GraphOptions&) {
  const float alpha = layer.elu_param().alpha();
  if (!(alpha >= 0 && std::isfinite(alpha))) {
    return invalid(fmt::format("elu_param.alpha must be at least 0, is {}", alpha));
  }
  return LayerShapes{{bottoms[0]}, {}};
}

Result<LayerShapes> settle_power(const pb::LayerParameter& layer, const Shapes& bottoms,
                                 const GraphOptions&) {
  const pb::PowerParameter& parameter = layer.power_param();
  TAUT_TRY(check_finite("power_param", {parameter.power(), parameter.scale(), parameter.shift()}));
  return LayerShapes{{bottoms[0]}, {}};
}

Result<LayerShapes> settle_exp(const pb::LayerParameter& layer, const Shapes& bottoms,
                               const GraphOptions&) {
  const pb::ExpParameter& parameter = layer.exp_param();
  TAUT_TRY(check_base("exp_param", parameter.base()));
  TAUT_TRY(check_finite("exp_param", {parameter.scale(), parameter.shift()}));
  return LayerShapes{{bottoms[0]}, {}};
}

Result<LayerShapes> settle_log(const pb::LayerParameter& layer, const Shapes& bottoms,
                               const GraphOptions&) {
  const pb::LogParameter& parameter = layer.log_param();
  TAUT_TRY(check_base("log_param", parameter.base()));
  if (parameter.base() == 1) return invalid("log_param.base is 1, which has no logarithm");
  TAUT_TRY(check_finite("log_param", {parameter.scale(), parameter.shift()}));
  return LayerShapes{{bottoms[0]}, {}};
}

Result<LayerShapes> settle_clip(const pb::LayerParameter& layer, const Shapes& bottoms,
                                const GraphOptions&) {
  const pb::ClipParameter& parameter = layer.clip_param();
  if (!parameter.has_min() || !parameter.has_max()) {
    return invalid("clip_param needs min and max");
  }
  TAUT_TRY(check_finite("clip_param", {parameter.min(), parameter.max()}));
  if (parameter.min() <= parameter.max()) return LayerShapes{{bottoms[0]}, {}};
  return invalid(fmt::format("clip_param.min must not exceed max {}, is {}", parameter.max(),
                             parameter.min()));
}

Result<LayerShapes> settle_swish(const pb::LayerParameter& layer, const Shapes& bottoms,
                                 const GraphOptions&) {
  TAUT_TRY(check_finite("swish_param", {layer.swish_param().beta()}));
  return LayerShapes{{bottoms[0]}, {}};
}

Result<LayerShapes> settle_threshold(const pb::LayerParameter& layer, const Shapes& bottoms,
                                     const GraphOptions&) {
  TAUT_TRY(check_finite("threshold_param", {layer.threshold_param().threshold()}));
  return LayerShapes{{bottoms[0]}, {}};
}

Result<LayerShapes> settle_eltwise(const pb::LayerParameter& layer, const Shapes& bottoms,
                                   const GraphOptions&) {
  const pb::EltwiseParameter& parameter = layer.eltwise_param();
  for (std::size_t i = 1; i < bottoms.size(); ++i) {
    if (bottoms[i] == bottoms[0]) continue;
    return invalid(
        fmt::format("bottom \"{}\" has shape {}, and bottom \"{}\" has shape {}: "
                    "they must be equal",
                    layer.bottom(0), to_string(bottoms[0]), layer.bottom(static_cast<int>(i)),
                    to_string(bottoms[i])));
  }
  if (parameter.coeff_size() > 0 && parameter.operation() != pb::EltwiseParameter::SUM) {
    return invalid("eltwise_param.coeff is for operation SUM only");
  }
  if (parameter.coeff_size() > 0 && parameter.coeff_size() != layer.bottom_size()) {
    return invalid(fmt::format("eltwise_param.coeff is given {} times for {} bottoms",
                               parameter.coeff_size(), layer.bottom_size()));
  }
  for (const float coeff : parameter.coeff()) {
    TAUT_TRY(check_finite("eltwise_param", {coeff}));
  }
  return LayerShapes{{bottoms[0]}, {}};
}

constexpr LayerRule kElementwiseRules[]{
    // A ReLU's gradient needs only its top's sign, so the top may be overwritten by a layer that
    // keeps the sign, or has gradient 0 where it does not.
    LayerRule{.type = "ReLU",
              .in_place = InPlace::kOver,
              .top_sign_must_stay = true,
              .keeps_sign = true,
              .settle = settle_relu},
    LayerRule{.type = "Sigmoid",
              .in_place = InPlace::kNewBlob,
              .top_must_stay = true,
              .settle = settle_unchanged},
    LayerRule{.type = "TanH",
              .in_place = InPlace::kOver,
              .top_must_stay = true,
              .keeps_sign = true,
              .settle = settle_unchanged},
    LayerRule{.type = "ELU",
              .in_place = InPlace::kOver,
              .top_must_stay = true,
              .keeps_sign = true,
              .settle = settle_elu},
    LayerRule{
        .type = "Exp", .in_place = InPlace::kOver, .top_must_stay = true, .settle = settle_exp},
    // A layer whose gradient reads its bottom cannot work in place.
    LayerRule{.type = "Power", .in_place = InPlace::kNewBlob, .settle = settle_power},
    LayerRule{.type = "Log", .in_place = InPlace::kNewBlob, .settle = settle_log},
    LayerRule{.type = "AbsVal", .in_place = InPlace::kNewBlob, .settle = settle_unchanged},
    LayerRule{.type = "BNLL", .in_place = InPlace::kNewBlob, .settle = settle_unchanged},
    LayerRule{.type = "Eltwise",
              .min_bottoms = 2,
              .max_bottoms = kMaxLayerBlobs,
              .differentiable_bottoms = kMaxLayerBlobs,
              .in_place = InPlace::kNewBlob,
              .settle = settle_eltwise},
    LayerRule{.type = "Dropout",
              .in_place = InPlace::kOver,
              .keeps_sign = true,
              .settle = settle_dropout},
    LayerRule{.type = "GELU", .settle = settle_unchanged},
    LayerRule{.type = "Clip", .in_place = InPlace::kNewBlob, .settle = settle_clip},
    LayerRule{.type = "Swish", .in_place = InPlace::kNewBlob, .settle = settle_swish},
    LayerRule{.type = "Threshold",
              .differentiable_bottoms = 0,
              .in_place = InPlace::kNewBlob,
              .settle = settle_threshold},
};

}  // namespace

LayerRules elementwise_rules() {
  return kElementwiseRules;
}

}  // namespace taut::model::rules
