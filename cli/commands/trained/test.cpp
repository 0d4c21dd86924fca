#include <cstdint>
#include <memory>
#include <string>

#include "cli/commands/shared_options.hpp"
#include "cli/commands/trained/model_tool.hpp"

namespace taut::cli {

void add_test(Command& command, int& status) {
  constexpr std::uint64_t kMaxBatches = 1 << 30;
  auto tool = std::make_shared<ModelTool>();
  pb::ToolRequest& request = tool->request;
  request.set_kind(pb::ToolRequest::TEST);
  add_model_tool(command, status, tool);
  add_batch_option(command, *tool);
  command.whole_number(
      "--iterations",
      [&request](std::uint64_t count) {
        request.set_iterations(static_cast<std::uint32_t>(count));
      },
      "Batches (default: once over the data)", 1, kMaxBatches);
  command.flag(
      "--json", [&request] { request.set_json(true); }, "Prints one JSON object on a line");
}

}  // namespace taut::cli
