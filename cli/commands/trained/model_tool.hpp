#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "cli/commands/shared_options.hpp"
#include "proto/tool.pb.h"

namespace taut::cli {

/// What a command that uses a saved model (`test`, `predict`, `sample`, `outputs`) requests from
/// the worker program, which has the devices and the layers.
struct ModelTool {
  pb::ToolRequest request;
  std::uint32_t threads = 1;
  std::vector<std::string> images;
  std::string resize;      // "HEIGHTxWIDTH"; empty: the net's
  double temperature = 1;  // sample
};

/// Adds the options that every such command has, and its action.
void add_model_tool(Command& command, int& status, const std::shared_ptr<ModelTool>& tool);
/// --batch.
void add_batch_option(Command& command, ModelTool& tool);

}  // namespace taut::cli
