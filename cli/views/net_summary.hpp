#pragma once

#include <string>
#include <vector>

#include "worker/model/graph.hpp"

namespace taut::cli {

/// A net's cost, as lines of at most 100 columns: each layer with its tops, its
/// parameters, multiply-adds and memory; totals below.
[[nodiscard]] std::vector<std::string> net_summary(const model::Graph& graph);

/// A net's cost as one JSON object.
[[nodiscard]] std::string net_summary_json(const model::Graph& graph);

}  // namespace taut::cli
