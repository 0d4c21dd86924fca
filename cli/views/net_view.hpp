#pragma once

#include <string>
#include <vector>

#include "worker/model/graph.hpp"

namespace taut::cli {

/// "net LeNet", or "unnamed net".
[[nodiscard]] std::string titled(const model::Graph& graph);

/// A net of one phase as a table: each layer with its type, its outputs, and its parameters.
[[nodiscard]] std::vector<std::string> net_view(const model::Graph& graph);

}  // namespace taut::cli
