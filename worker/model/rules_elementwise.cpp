#include <fmt/format.h>

#include <cmath>

#include "worker/model/rules.hpp"

namespace taut::model::rules {

Result<LayerShapes> settle_unchanged(const pb::LayerParameter&, const Shapes& bottoms,
                                     const GraphOptions&) {
  return LayerShapes{{bottoms[0]}, {}};
}

Result<LayerShapes> settle_relu(const pb::LayerParameter& layer, const Shapes& bottoms,
                                const GraphOptions&) {
  const float slope = layer.relu_param().negative_slope();
  if (!(slope >= 0 && std::isfinite(slope))) {
    return invalid(fmt::format("relu_param.negative_slope is {}; it begins at 0", slope));
  }
  return LayerShapes{{bottoms[0]}, {}};
}

Result<LayerShapes> settle_dropout(const pb::LayerParameter& layer, const Shapes& bottoms,
                                   const GraphOptions&) {
  const float ratio = layer.dropout_param().dropout_ratio();
  if (!(ratio >= 0 && ratio < 1)) {
    return invalid(fmt::format("dropout_param.dropout_ratio is {}; it lies in [0, 1)", ratio));
  }
  return LayerShapes{{bottoms[0]}, {}};
}

}  // namespace taut::model::rules
