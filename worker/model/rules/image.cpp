#include <fmt/format.h>

#include <cmath>
#include <utility>

#include "worker/model/extents.hpp"
#include "worker/model/rules/rules.hpp"
#include "worker/model/rules/window.hpp"

namespace taut::model::rules {
namespace {

Result<void> check_is_images(const Shape& bottom) {
  if (bottom.size() == 4) return ok();
  return invalid(
      fmt::format("the bottom must be images (N x C x H x W), has shape {}", to_string(bottom)));
}

/// The number of sides: 2 for images, 1 for signals (N x C x W).
Result<std::size_t> sides_of(const Shape& bottom) {
  if (bottom.size() == 3 || bottom.size() == 4) return bottom.size() - 2;
  return invalid(
      fmt::format("the bottom has shape {}, but must be images (N x C x H x W) or signals "
                  "(N x C x W)",
                  to_string(bottom)));
}

Result<void> check_convolution(const pb::ConvolutionParameter& parameter, const Shape& bottom,
                               std::int64_t outputs) {
  if (parameter.axis() != 1) {
    return invalid(
        fmt::format("convolution_param.axis is {}: channels are along axis 1", parameter.axis()));
  }
  const std::int64_t group = parameter.group();
  if (group == 0 || bottom[1] % group != 0 || outputs % group != 0) {
    return invalid(
        fmt::format("convolution_param.group of {} does not divide the bottom's {} "
                    "channels and num_output {}",
                    group, bottom[1], outputs));
  }
  return ok();
}

/// The new length of a side: convolution_extent or deconvolution_extent.
using Extent = Result<std::int64_t> (*)(std::int64_t size, const WindowSide& side,
                                        const std::string& side_name);

/// Shared by Convolution and Deconvolution: everything but how a side grows or shrinks, and which
/// channels come first in the weights.
Result<LayerShapes> settle_windows(const pb::LayerParameter& layer, const Shape& bottom,
                                   Extent extent, bool outputs_first) {
  const pb::ConvolutionParameter& parameter = layer.convolution_param();
  TAUT_TRY(const std::size_t sides, sides_of(bottom));
  TAUT_TRY(const std::int64_t outputs, outputs_of(parameter, "convolution_param"));
  TAUT_TRY(check_convolution(parameter, bottom, outputs));
  TAUT_TRY(const Window window, convolution_window(parameter, sides));
  const std::int64_t group = parameter.group();
  Shape top{bottom[0], outputs};
  Shape weights =
      outputs_first ? Shape{outputs, bottom[1] / group} : Shape{bottom[1], outputs / group};
  if (sides == 2) {
    TAUT_TRY(const std::int64_t height, extent(bottom[2], window.height, "height"));
    top.push_back(height);
    weights.push_back(window.height.kernel);
  }
  TAUT_TRY(const std::int64_t width, extent(bottom.back(), window.width, "width"));
  top.push_back(width);
  weights.push_back(window.width.kernel);
  LayerShapes out{{std::move(top)}, {}};
  out.parameters.push_back({"weight", std::move(weights), parameter.weight_filler()});
  if (parameter.bias_term()) out.parameters.push_back({"bias", {outputs}, parameter.bias_filler()});
  return out;
}

Result<LayerShapes> settle_convolution(const pb::LayerParameter& layer, const Shapes& bottoms,
                                       const GraphOptions&) {
  return settle_windows(layer, bottoms[0], convolution_extent, true);
}

Result<LayerShapes> settle_deconvolution(const pb::LayerParameter& layer, const Shapes& bottoms,
                                         const GraphOptions&) {
  return settle_windows(layer, bottoms[0], deconvolution_extent, false);
}

Result<LayerShapes> settle_pooling(const pb::LayerParameter& layer, const Shapes& bottoms,
                                   const GraphOptions&) {
  const pb::PoolingParameter& parameter = layer.pooling_param();
  const Shape& bottom = bottoms[0];
  TAUT_TRY(check_is_images(bottom));
  const bool round_down = parameter.round_mode() == pb::PoolingParameter::FLOOR;
  TAUT_TRY(const Window window, pooling_window(parameter, bottom[2], bottom[3]));
  if (parameter.pool() == pb::PoolingParameter::STOCHASTIC &&
      (window.height.pad != 0 || window.width.pad != 0)) {
    return invalid("pooling_param.pool STOCHASTIC has no padding, as in Caffe: omit pad");
  }
  TAUT_TRY(const std::int64_t height,
           pooling_extent(bottom[2], window.height, "height", round_down));
  TAUT_TRY(const std::int64_t width, pooling_extent(bottom[3], window.width, "width", round_down));
  return LayerShapes{{{bottom[0], bottom[1], height, width}}, {}};
}

Result<LayerShapes> settle_lrn(const pb::LayerParameter& layer, const Shapes& bottoms,
                               const GraphOptions&) {
  const pb::LRNParameter& parameter = layer.lrn_param();
  TAUT_TRY(check_is_images(bottoms[0]));
  const std::int64_t size = parameter.local_size();
  if (size % 2 == 0 || size > 1023) {
    return invalid(fmt::format("lrn_param.local_size must be odd and at most 1023, is {}", size));
  }
  for (const float value : {parameter.alpha(), parameter.beta(), parameter.k()}) {
    if (!std::isfinite(value)) {
      return invalid(fmt::format("lrn_param's alpha, beta or k is {}", value));
    }
  }
  if (parameter.norm_region() == pb::LRNParameter::WITHIN_CHANNEL && parameter.k() != 1) {
    return invalid(
        fmt::format("lrn_param.k is {}: within a channel it is always 1", parameter.k()));
  }
  return LayerShapes{{bottoms[0]}, {}};
}

constexpr LayerRule kImageRules[]{
    LayerRule{.type = "Convolution", .settle = settle_convolution},
    LayerRule{.type = "Deconvolution", .settle = settle_deconvolution},
    LayerRule{.type = "LRN", .settle = settle_lrn},
    LayerRule{.type = "Pooling", .settle = settle_pooling},
};

}  // namespace

LayerRules image_rules() {
  return kImageRules;
}

}  // namespace taut::model::rules
