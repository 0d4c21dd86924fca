#include <cstdint>
#include <memory>
#include <string>

#include "cli/commands/shared_options.hpp"
#include "cli/commands/trained/model_tool.hpp"

namespace taut::cli {

void add_predict(Command& command, int& status) {
  constexpr std::uint64_t kMaxCount = 1 << 30;
  auto tool = std::make_shared<ModelTool>();
  pb::ToolRequest& request = tool->request;
  request.set_kind(pb::ToolRequest::PREDICT);
  request.set_top(1);
  add_model_tool(command, status, tool);
  command.texts("IMAGE", tool->images, "JPEG and PNG files (default: the records of the data)")
      .value("FILE");
  command
      .text(
          "--names", [&request](const std::string& names) { request.set_names(names); },
          "A file with a class's name in each line")
      .value("FILE");
  command
      .whole_number(
          "--top",
          [&request](std::uint64_t top) { request.set_top(static_cast<std::uint32_t>(top)); },
          "Classes that are printed for each item", 1, kMaxCount)
      .by_default("1");
  command.whole_number(
      "--count", [&request](std::uint64_t count) { request.set_count(count); },
      "Records of the data (default: all)", 1, kMaxCount);
  command
      .text("--resize", tool->resize,
            "Size of images before they are cropped (default: what the net takes)")
      .value("HxW");
  command.text(
      "--blob", [&request](const std::string& blob) { request.set_blob(blob); },
      "The blob with the scores (default: what the loss reads)");
  command.flag(
      "--csv", [&request] { request.set_csv(true); },
      "Prints lines of item, label, rank, class, name, score");
  command.flag(
      "--json", [&request] { request.set_json(true); },
      "Prints one JSON object on a line for each item");
  add_batch_option(command, *tool);
}

}  // namespace taut::cli
