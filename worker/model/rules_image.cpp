#include <fmt/format.h>

#include "worker/model/rules.hpp"
#include "worker/model/shape.hpp"
#include "worker/model/window.hpp"

namespace taut::model::rules {
namespace {

Result<void> check_is_images(const Shape& bottom) {
  if (bottom.size() == 4) return ok();
  return invalid(fmt::format("the bottom has shape {}, and must be images (N x C x H x W)",
                             to_string(bottom)));
}

}  // namespace

Result<LayerShapes> settle_convolution(const pb::LayerParameter& layer, const Shapes& bottoms,
                                       const GraphOptions&) {
  const pb::ConvolutionParameter& parameter = layer.convolution_param();
  const Shape& bottom = bottoms[0];
  TAUT_TRY(check_is_images(bottom));
  TAUT_TRY(const std::int64_t outputs, outputs_of(parameter, "convolution_param"));
  const std::int64_t group = parameter.group();
  if (group == 0 || bottom[1] % group != 0 || outputs % group != 0) {
    return invalid(
        fmt::format("convolution_param.group of {} does not divide the bottom's {} "
                    "channels and num_output {}",
                    group, bottom[1], outputs));
  }
  TAUT_TRY(const Window window, convolution_window(parameter));
  TAUT_TRY(const std::int64_t height, convolution_extent(bottom[2], window.height, "height"));
  TAUT_TRY(const std::int64_t width, convolution_extent(bottom[3], window.width, "width"));
  LayerShapes out{{{bottom[0], outputs, height, width}}, {}};
  out.parameters.push_back({"weight",
                            {outputs, bottom[1] / group, window.height.kernel, window.width.kernel},
                            parameter.weight_filler()});
  if (parameter.bias_term()) {
    out.parameters.push_back({"bias", {outputs}, parameter.bias_filler()});
  }
  return out;
}

Result<LayerShapes> settle_pooling(const pb::LayerParameter& layer, const Shapes& bottoms,
                                   const GraphOptions&) {
  const Shape& bottom = bottoms[0];
  TAUT_TRY(check_is_images(bottom));
  TAUT_TRY(const Window window, pooling_window(layer.pooling_param(), bottom[2], bottom[3]));
  TAUT_TRY(const std::int64_t height, pooling_extent(bottom[2], window.height, "height"));
  TAUT_TRY(const std::int64_t width, pooling_extent(bottom[3], window.width, "width"));
  return LayerShapes{{{bottom[0], bottom[1], height, width}}, {}};
}

}  // namespace taut::model::rules
