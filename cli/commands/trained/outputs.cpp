#include <memory>
#include <string>
#include <vector>

#include "cli/commands/shared_options.hpp"
#include "cli/commands/trained/model_tool.hpp"

namespace taut::cli {

void add_outputs(Command& command, int& status) {
  auto tool = std::make_shared<ModelTool>();
  pb::ToolRequest& request = tool->request;
  request.set_kind(pb::ToolRequest::OUTPUTS);
  add_model_tool(command, status, tool);
  add_batch_option(command, *tool);
  command
      .text(
          "--output", [&request](const std::string& output) { request.set_output(output); },
          "The .safetensors file to write")
      .required()
      .value("FILE");
  command
      .texts(
          "--blob",
          [&request](const std::vector<std::string>& blobs) {
            request.mutable_blobs()->Add(blobs.begin(), blobs.end());
          },
          "Blobs to write (default: the net's inputs and its last outputs)")
      .value("NAME");
}

}  // namespace taut::cli
