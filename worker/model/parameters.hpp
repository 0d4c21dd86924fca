#pragma once

#include <cstddef>
#include <vector>

#include "common/result.hpp"
#include "worker/model/graph.hpp"
#include "worker/model/rules/layer_rule.hpp"

namespace taut::model {

/// Adds a layer's parameters to the graph's tables; returns their indices. A parameter is named by
/// its ParamSpec, or "<layer>/<suffix>"; each name is one table, shared by all layers that use it.
/// Errors    invalid, without the layer's name: more specs than parameters, a shared name with
///           a different shape or multiplier, a filler that does not fit
[[nodiscard]] Result<std::vector<std::size_t>> add_parameters(
    const pb::LayerParameter& layer, const std::vector<RequiredParameter>& required,
    std::vector<TableSpec>& tables);

}  // namespace taut::model
