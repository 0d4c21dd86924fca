#pragma once

#include <string>
#include <vector>

#include "worker/model/graph.hpp"

namespace taut::cli {

/// A net of one phase as a table: each layer with its type, what it makes, and its parameters.
[[nodiscard]] std::vector<std::string> net_view(const model::Graph& graph);

}  // namespace taut::cli
