#include <fmt/format.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <filesystem>
#include <memory>
#include <string>
#include <system_error>
#include <vector>

#include "cli/command.hpp"
#include "cli/install_paths.hpp"
#include "proto/text.hpp"
#include "proto/tool.pb.h"

namespace taut::cli {
namespace {

struct ToolOptions {
  pb::ToolRequest request;
  std::uint32_t threads = 1;
  std::vector<std::string> images;
  std::string resize;
};

/// The device and the layers are the worker program's: this process becomes it.
Result<void> become_worker(const std::string& command, const ToolOptions& options) {
  TAUT_TRY(const std::filesystem::path program, sibling_program("tautline-worker"));
  std::vector<std::string> arguments{program.string(),
                                     "--tool",
                                     to_text(options.request),
                                     "--threads",
                                     std::to_string(options.threads),
                                     "--speaks-as",
                                     "tautline " + command};
  std::vector<char*> pointers;
  for (std::string& argument : arguments) pointers.push_back(argument.data());
  pointers.push_back(nullptr);
  std::fflush(stdout);
  execv(program.c_str(), pointers.data());
  return make_error(ErrorCode::kIo, fmt::format("{}: cannot be run: {}", program.string(),
                                                std::generic_category().message(errno)));
}

/// "HEIGHTxWIDTH". Throws CLI::ValidationError.
void settle_size(ToolOptions& options) {
  if (options.resize.empty()) return;
  unsigned height = 0;
  unsigned width = 0;
  int end = 0;
  const int read = std::sscanf(options.resize.c_str(), "%5ux%5u%n", &height, &width, &end);
  if (read != 2 || static_cast<std::size_t>(end) != options.resize.size() || height == 0 ||
      width == 0 || height > 65535 || width > 65535) {
    throw CLI::ValidationError(
        "--resize", fmt::format("\"{}\" is no HEIGHTxWIDTH such as 256x256", options.resize));
  }
  options.request.set_height(height);
  options.request.set_width(width);
}

template <class Set>
CLI::Option* add_text(CLI::App& command, const std::string& name, const std::string& help,
                      Set set) {
  return command.add_option_function<std::string>(name, set, help);
}

void add_model_options(CLI::App& command, ToolOptions& options) {
  pb::ToolRequest& request = options.request;
  add_text(command, "MODEL", "A checkpoint's folder, or a .safetensors or .caffemodel file",
           [&request](const std::string& model) { request.set_model(model); })
      ->required();
  add_text(command, "--net",
           "A net, solver or job file, for a weights file that does not name its net",
           [&request](const std::string& net) { request.set_net(net); })
      ->type_name("FILE");
  add_text(command, "--data", "Folder of the data set (default: what the net or its job names)",
           [&request](const std::string& data) { request.set_data(data); })
      ->type_name("DIR");
  command.add_option("--threads", options.threads, "Compute threads on the CPU")
      ->check(CLI::Range(1, 1024))
      ->capture_default_str();
}

void add_batch_option(CLI::App& command, ToolOptions& options) {
  command
      .add_option_function<std::uint32_t>(
          "--batch", [&options](std::uint32_t batch) { options.request.set_batch(batch); },
          "Records in a batch (default: the net's)")
      ->check(CLI::Range(1, 1 << 20));
}

CLI::App* add_tool(CLI::App& app, int& status, const std::string& name, const std::string& help,
                   const std::shared_ptr<ToolOptions>& options) {
  CLI::App* command = app.add_subcommand(name, help);
  add_model_options(*command, *options);
  command->callback([options, name, &status] {
    settle_size(*options);
    for (const std::string& image : options->images) options->request.add_images(image);
    const Result<void> done = become_worker(name, *options);
    if (!done) status = fail(name, done.error().message);
  });
  return command;
}

}  // namespace

void add_test(CLI::App& app, int& status) {
  auto options = std::make_shared<ToolOptions>();
  options->request.set_kind(pb::ToolRequest::TEST);
  CLI::App* command =
      add_tool(app, status, "test",
               "Runs a saved model over a data set: every number that its TEST phase puts out, "
               "averaged",
               options);
  add_batch_option(*command, *options);
  command
      ->add_option_function<std::uint32_t>(
          "--iterations",
          [options](std::uint32_t count) { options->request.set_iterations(count); },
          "Batches (default: once over the data)")
      ->check(CLI::PositiveNumber);
  command->add_flag_callback(
      "--json", [options] { options->request.set_json(true); }, "One JSON object on a line");
  command->footer(
      "Example: tautline test lenet.safetensors --data /usr/share/datasets/fashion-mnist");
}

void add_predict(CLI::App& app, int& status) {
  auto options = std::make_shared<ToolOptions>();
  options->request.set_kind(pb::ToolRequest::PREDICT);
  options->request.set_top(1);
  CLI::App* command = add_tool(
      app, status, "predict",
      "Names the class and the score of images, or of each record of the net's data", options);
  command->add_option("IMAGE", options->images, "JPEG and PNG files; none: the records of the data")
      ->type_name("FILE");
  add_text(*command, "--names", "A file with a class's name in each line",
           [options](const std::string& names) { options->request.set_names(names); })
      ->type_name("FILE");
  command
      ->add_option_function<std::uint32_t>(
          "--top", [options](std::uint32_t top) { options->request.set_top(top); },
          "Classes that are named for each item (default: 1)")
      ->check(CLI::PositiveNumber);
  command
      ->add_option_function<std::uint64_t>(
          "--count", [options](std::uint64_t count) { options->request.set_count(count); },
          "Records of the data at most (default: all)")
      ->check(CLI::PositiveNumber);
  command
      ->add_option("--resize", options->resize,
                   "Size of images before they are cropped (default: what the net takes)")
      ->type_name("HxW");
  add_text(*command, "--blob", "The blob with the scores (default: what the loss reads)",
           [options](const std::string& blob) { options->request.set_blob(blob); });
  command->add_flag_callback(
      "--csv", [options] { options->request.set_csv(true); },
      "Lines of item, label, rank, class, name, score");
  add_batch_option(*command, *options);
  command->footer(
      "Example: tautline predict lenet.safetensors shirt.png --names classes.txt --top 3");
}

void add_sample(CLI::App& app, int& status) {
  auto options = std::make_shared<ToolOptions>();
  pb::ToolRequest& request = options->request;
  request.set_kind(pb::ToolRequest::SAMPLE);
  request.set_length(500);
  request.set_temperature(1);
  request.set_seed(1);
  CLI::App* command = add_tool(
      app, status, "sample", "Writes text with a recurrent net that was trained on text", options);
  add_text(*command, "--prime", "Text that the net reads first (default: a line's end)",
           [options](const std::string& text) { options->request.set_prompt(text); })
      ->type_name("TEXT");
  command
      ->add_option_function<std::uint32_t>(
          "--length", [options](std::uint32_t length) { options->request.set_length(length); },
          "Characters or words that are drawn (default: 500)")
      ->check(CLI::Range(1, 10'000'000));
  command
      ->add_option_function<float>(
          "--temperature", [options](float value) { options->request.set_temperature(value); },
          "Divides the scores; 0 takes the likeliest each time (default: 1)")
      ->check(CLI::Range(0.0F, 1000.0F));
  command->add_option_function<std::uint64_t>(
      "--seed", [options](std::uint64_t seed) { options->request.set_seed(seed); },
      "The same seed draws the same text (default: 1)");
  add_text(*command, "--vocabulary",
           "The vocabulary_LAYER.txt of the run's folder (default: made from the text again)",
           [options](const std::string& file) { options->request.set_vocabulary(file); })
      ->type_name("FILE");
  command->footer(
      "Example: tautline sample runs/char_lstm/checkpoints --prime ROMEO: --temperature 0.8");
}

}  // namespace taut::cli
