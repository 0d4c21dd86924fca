#pragma once

#include <string>
#include <vector>

#include "worker/model/graph.hpp"

namespace taut::cli {

/// What a net asks for, as lines of at most 100 columns: each layer with what it makes, its
/// parameters, multiply-adds and memory; totals below.
[[nodiscard]] std::vector<std::string> net_summary(const model::Graph& graph);

/// The same as one JSON object.
[[nodiscard]] std::string net_summary_json(const model::Graph& graph);

}  // namespace taut::cli
