#pragma once

#include <cstddef>
#include <vector>

#include "common/math/filler.hpp"
#include "common/result.hpp"
#include "worker/model/graph.hpp"
#include "worker/model/rules/layer_rule.hpp"

namespace taut::model {

/// The distribution of a filler for a parameter of this shape. Fans as in Caffe: in = count /
/// shape[0], out = count / shape[1] (count if there is one axis).
/// Errors    invalid: unknown type (lists the known ones), impossible bounds or deviations
/// Source    Caffe, filler.hpp
[[nodiscard]] Result<math::Filler> settle_filler(const pb::FillerParameter& filler,
                                                 const Shape& shape);

/// Adds a layer's parameters to the graph's tables; returns their indices. A parameter is named by
/// its ParamSpec, or "<layer>/<suffix>"; one name is one table, shared by every layer that uses it.
/// Errors    invalid, without the layer's name: more specs than parameters, a shared name with
///           another shape or multiplier, an impossible filler
[[nodiscard]] Result<std::vector<std::size_t>> add_parameters(
    const pb::LayerParameter& layer, const std::vector<RequiredParameter>& required,
    std::vector<TableSpec>& tables);

}  // namespace taut::model
