#pragma once

#include "common/result.hpp"
#include "proto/tool.pb.h"
#include "worker/backend/backend.hpp"

namespace taut::worker {

/// Carries out what `tautline test`, `predict` or `sample` asks, and prints what came of it.
/// Errors    as SavedModel, build_graph and the data say; what the model cannot be used for
/// Thread    main
[[nodiscard]] Result<void> run_tool(const pb::ToolRequest& request, Backend& backend);

}  // namespace taut::worker
