#pragma once

#include "common/result.hpp"
#include "proto/tool.pb.h"
#include "worker/engine/backend.hpp"

namespace taut::worker {

/// Executes a request of `tautline test`, `predict`, `sample` or `outputs`, and prints the result.
/// Errors    those of SavedModel, build_graph and the data; a model that does not fit the request
/// Thread    main
[[nodiscard]] Result<void> run_tool(const pb::ToolRequest& request, Backend& backend);

}  // namespace taut::worker
