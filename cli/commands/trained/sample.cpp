#include <cstdint>
#include <limits>
#include <memory>
#include <string>

#include "cli/commands/shared_options.hpp"
#include "cli/commands/trained/model_tool.hpp"

namespace taut::cli {

void add_sample(Command& command, int& status) {
  constexpr std::uint64_t kMaxLength = 10'000'000;
  constexpr double kMaxTemperature = 1000;
  auto tool = std::make_shared<ModelTool>();
  pb::ToolRequest& request = tool->request;
  request.set_kind(pb::ToolRequest::SAMPLE);
  request.set_length(500);
  request.set_seed(1);
  add_model_tool(command, status, tool);
  command.text(
      "--prime", [&request](const std::string& text) { request.set_prompt(text); },
      "Text that the net reads first (default: a line's end)");
  command
      .whole_number(
          "--length",
          [&request](std::uint64_t length) {
            request.set_length(static_cast<std::uint32_t>(length));
          },
          "Characters or words that are drawn", 1, kMaxLength)
      .by_default(std::to_string(request.length()));
  command
      .number("--temperature", tool->temperature,
              "Divides the scores; 0 always takes the most likely", "NUMBER",
              {.max = kMaxTemperature})
      .by_default("1");
  command
      .whole_number(
          "--seed", [&request](std::uint64_t seed) { request.set_seed(seed); },
          "The same seed draws the same text", 0, std::numeric_limits<std::uint64_t>::max())
      .by_default("1");
  command
      .text(
          "--vocabulary", [&request](const std::string& file) { request.set_vocabulary(file); },
          "The vocabulary_LAYER.txt of the run's folder (default: made from the text again)")
      .value("FILE");
}

}  // namespace taut::cli
