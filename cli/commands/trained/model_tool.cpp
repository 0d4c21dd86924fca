#include "cli/commands/trained/model_tool.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <system_error>

#include "cli/commands/shared_options.hpp"
#include "cli/install_paths.hpp"
#include "proto/config/text.hpp"

namespace taut::cli {
namespace {

/// The worker program has the device and the layers: this process becomes it.
Result<void> become_worker(const std::string& command, const ModelTool& options) {
  TAUT_TRY(const std::filesystem::path program, sibling_program("tautline-worker"));
  std::vector<std::string> arguments{program.string(),
                                     "--tool",
                                     to_text(options.request),
                                     "--threads",
                                     std::to_string(options.threads),
                                     "--speaks-as",
                                     "tautline " + command};
  std::vector<char*> pointers;
  pointers.reserve(arguments.size() + 1);
  for (std::string& argument : arguments) pointers.push_back(argument.data());
  pointers.push_back(nullptr);
  std::fflush(stdout);
  execv(program.c_str(), pointers.data());
  return make_error(ErrorCode::kIo, fmt::format("{}: cannot be run: {}", program.string(),
                                                std::generic_category().message(errno)));
}

/// Reads "HEIGHTxWIDTH".
void settle_size(ModelTool& options) {
  if (options.resize.empty()) return;
  constexpr unsigned kMaxSide = 65535;
  unsigned height = 0;
  unsigned width = 0;
  int end = 0;
  const int read = std::sscanf(options.resize.c_str(), "%5ux%5u%n", &height, &width, &end);
  if (read != 2 || static_cast<std::size_t>(end) != options.resize.size() || height == 0 ||
      width == 0 || height > kMaxSide || width > kMaxSide) {
    throw UsageError(
        fmt::format("--resize: must be HEIGHTxWIDTH, each 1 to {}, e.g. 256x256, is {}", kMaxSide,
                    command_line::in_quotes(options.resize)));
  }
  options.request.set_height(height);
  options.request.set_width(width);
}

void add_model_options(Command& command, ModelTool& options) {
  constexpr std::uint64_t kMaxThreads = 1024;
  pb::ToolRequest& request = options.request;
  command
      .text(
          "MODEL", [&request](const std::string& model) { request.set_model(model); },
          "A checkpoint's folder, or a .safetensors, .caffemodel or .caffemodel.h5 file")
      .required()
      .value("FILE");
  command
      .text(
          "--net", [&request](const std::string& net) { request.set_net(net); },
          "The net, solver or job file, for a weights file that does not contain its net")
      .value("FILE");
  command
      .text(
          "--data", [&request](const std::string& data) { request.set_data(data); },
          "Folder of the data set (default: what the net or its job names)")
      .value("DIR");
  command.whole_number("--threads", options.threads, "Compute threads on the CPU", 1, kMaxThreads)
      .by_default(std::to_string(options.threads));
}

}  // namespace

void add_batch_option(Command& command, ModelTool& options) {
  constexpr std::uint64_t kMaxBatch = 1 << 20;
  command.whole_number(
      "--batch",
      [&options](std::uint64_t batch) {
        options.request.set_batch(static_cast<std::uint32_t>(batch));
      },
      "Records in a batch (default: the net's)", 1, kMaxBatch);
}

void add_model_tool(Command& command, int& status, const std::shared_ptr<ModelTool>& tool) {
  add_model_options(command, *tool);
  command.on_run([tool, name = command.name(), &status] {
    settle_size(*tool);
    tool->request.set_temperature(static_cast<float>(tool->temperature));
    for (const std::string& image : tool->images) tool->request.add_images(image);
    const Result<void> done = become_worker(name, *tool);
    if (!done) status = fail(name, done.error().message);
  });
}

}  // namespace taut::cli
