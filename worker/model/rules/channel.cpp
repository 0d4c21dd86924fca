#include <fmt/format.h>

#include <cmath>

#include "worker/model/extents.hpp"
#include "worker/model/rules/rules.hpp"

namespace taut::model::rules {
namespace {

pb::FillerParameter or_constant(bool given, const pb::FillerParameter& filler, float otherwise) {
  if (given) return filler;
  pb::FillerParameter constant;
  constant.set_value(otherwise);
  return constant;
}

/// The extents with one number each: the second bottom's, or those that the fields name.
template <class P>
Result<Shape> factors_of(const P& parameter, const std::string& field, const Shapes& bottoms) {
  const Shape& bottom = bottoms[0];
  TAUT_TRY(const std::size_t axis, axis_index(parameter.axis(), bottom, field + ".axis"));
  const std::size_t left = bottom.size() - axis;
  const auto first = bottom.begin() + static_cast<std::ptrdiff_t>(axis);
  if (bottoms.size() == 2) {
    const Shape& given = bottoms[1];
    const auto count = static_cast<std::ptrdiff_t>(given.size());
    if (given.size() <= left && Shape(first, first + count) == given) return given;
    return invalid(
        fmt::format("the second bottom has shape {}, which is not part of the first "
                    "one's {} from axis {} on",
                    to_string(given), to_string(bottom), axis));
  }
  const std::int64_t count =
      parameter.num_axes() == -1 ? static_cast<std::int64_t>(left) : parameter.num_axes();
  if (count < 0 || count > static_cast<std::int64_t>(left)) {
    return invalid(fmt::format("{}.num_axes is {} from axis {} on, but the bottom has shape {}",
                               field, parameter.num_axes(), axis, to_string(bottom)));
  }
  return Shape(first, first + count);
}

/// As a parameter's shape: a single number has shape 1.
Shape parameter_shape(const Shape& factors) {
  return factors.empty() ? Shape{1} : factors;
}

Result<void> check_has_channels(const Shape& bottom) {
  if (bottom.size() >= 2) return ok();
  return invalid(
      fmt::format("the bottom has shape {}; its channels must be along axis 1", to_string(bottom)));
}

Result<LayerShapes> settle_batch_norm(const pb::LayerParameter& layer, const Shapes& bottoms,
                                      const GraphOptions&) {
  const pb::BatchNormParameter& parameter = layer.batch_norm_param();
  const Shape& bottom = bottoms[0];
  TAUT_TRY(check_has_channels(bottom));
  if (!(parameter.eps() > 0 && std::isfinite(parameter.eps()))) {
    return invalid(
        fmt::format("batch_norm_param.eps must be greater than 0, is {}", parameter.eps()));
  }
  const float fraction = parameter.moving_average_fraction();
  if (!(fraction >= 0 && fraction <= 1)) {
    return invalid(
        fmt::format("batch_norm_param.moving_average_fraction must be in [0, 1], is {}", fraction));
  }
  for (const pb::ParamSpec& spec : layer.param()) {
    if (spec.has_lr_mult() && spec.lr_mult() != 0) {
      return invalid(
          fmt::format("param.lr_mult is {}: running statistics are averaged, not "
                      "learned; give 0 or omit it",
                      spec.lr_mult()));
    }
  }
  const TableKind kind = parameter.use_global_stats() ? TableKind::kFrozen : TableKind::kAveraged;
  LayerShapes out{{bottom}, {}};
  out.parameters.push_back({"mean", {bottom[1]}, or_constant(false, {}, 0), kind});
  out.parameters.push_back({"variance", {bottom[1]}, or_constant(false, {}, 0), kind});
  out.parameters.push_back({"weight_sum", {1}, or_constant(false, {}, 0), kind});
  return out;
}

Result<LayerShapes> settle_scale(const pb::LayerParameter& layer, const Shapes& bottoms,
                                 const GraphOptions&) {
  const pb::ScaleParameter& parameter = layer.scale_param();
  TAUT_TRY(const Shape factors, factors_of(parameter, "scale_param", bottoms));
  LayerShapes out{{bottoms[0]}, {}};
  if (bottoms.size() == 1) {
    out.parameters.push_back({"scale", parameter_shape(factors),
                              or_constant(parameter.has_filler(), parameter.filler(), 1)});
  }
  if (parameter.bias_term()) {
    out.parameters.push_back({"bias", parameter_shape(factors), parameter.bias_filler()});
  }
  return out;
}

Result<LayerShapes> settle_bias(const pb::LayerParameter& layer, const Shapes& bottoms,
                                const GraphOptions&) {
  const pb::BiasParameter& parameter = layer.bias_param();
  TAUT_TRY(const Shape factors, factors_of(parameter, "bias_param", bottoms));
  LayerShapes out{{bottoms[0]}, {}};
  if (bottoms.size() == 1) {
    out.parameters.push_back({"bias", parameter_shape(factors), parameter.filler()});
  }
  return out;
}

Result<LayerShapes> settle_prelu(const pb::LayerParameter& layer, const Shapes& bottoms,
                                 const GraphOptions&) {
  const pb::PReLUParameter& parameter = layer.prelu_param();
  TAUT_TRY(check_has_channels(bottoms[0]));
  LayerShapes out{{bottoms[0]}, {}};
  out.parameters.push_back({"slope",
                            {parameter.channel_shared() ? 1 : bottoms[0][1]},
                            or_constant(parameter.has_filler(), parameter.filler(), 0.25F)});
  return out;
}

Result<LayerShapes> settle_mvn(const pb::LayerParameter& layer, const Shapes& bottoms,
                               const GraphOptions&) {
  const float eps = layer.mvn_param().eps();
  if (!(eps > 0 && std::isfinite(eps))) {
    return invalid(fmt::format("mvn_param.eps must be greater than 0, is {}", eps));
  }
  TAUT_TRY(axis_index(0, bottoms[0], "the axis of the records"));
  return LayerShapes{{bottoms[0]}, {}};
}

constexpr LayerRule kChannelRules[]{
    LayerRule{.type = "MVN", .settle = settle_mvn},
    LayerRule{.type = "PReLU", .in_place = InPlace::kNewBlob, .settle = settle_prelu},
    // A BatchNorm's gradient needs its top, a Scale's its bottom: in sequence they share one blob.
    LayerRule{.type = "BatchNorm",
              .in_place = InPlace::kOver,
              .top_must_stay = true,
              .settle = settle_batch_norm},
    LayerRule{.type = "Scale",
              .max_bottoms = 2,
              .differentiable_bottoms = 2,
              .in_place = InPlace::kNewBlob,
              .settle = settle_scale},
    LayerRule{.type = "Bias",
              .max_bottoms = 2,
              .differentiable_bottoms = 2,
              .in_place = InPlace::kOver,
              .settle = settle_bias},
};

}  // namespace

LayerRules channel_rules() {
  return kChannelRules;
}

}  // namespace taut::model::rules
