#include <fmt/format.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>
#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "cli/command.hpp"
#include "cli/install_paths.hpp"

namespace taut::cli {
namespace {

struct PlanArguments {
  std::string job_file;
  std::uint64_t budget = 0;
  std::uint32_t replicas = 1;
  std::string data;
};

/// Becomes the worker, which knows what its operations need. Returns only where that failed.
int become_worker(const PlanArguments& arguments) {
  const auto program = sibling_program("tautline-worker");
  if (!program) return fail("plan", program.error().message);
  std::vector<std::string> words = {program.value().string(),
                                    "--local",
                                    arguments.job_file,
                                    "--device-memory-budget",
                                    std::to_string(arguments.budget),
                                    "--plan",
                                    "--replicas",
                                    std::to_string(arguments.replicas)};
  if (!arguments.data.empty()) words.insert(words.end(), {"--data", arguments.data});
  std::vector<char*> pointers;
  for (std::string& word : words) pointers.push_back(word.data());
  pointers.push_back(nullptr);
  ::execv(pointers[0], pointers.data());
  return fail("plan", fmt::format("{}: {}", words[0], std::strerror(errno)));
}

}  // namespace

void add_plan(CLI::App& app, int& status) {
  auto arguments = std::make_shared<PlanArguments>();
  CLI::App* command = app.add_subcommand(
      "plan",
      "Shows how a training keeps to a budget of device memory: what lies there at each "
      "step, and what is moved");
  command->add_option("JOB", arguments->job_file, "Job or solver file")->required();
  command->add_option("--budget", arguments->budget, "Bytes of device memory, e.g. 64MiB")
      ->required()
      ->transform(CLI::AsSizeValue(false))
      ->check(CLI::PositiveNumber)
      ->type_name("SIZE");
  command->add_option("--replicas", arguments->replicas, "Copies of the net in one process")
      ->check(CLI::Range(1, 1024));
  command->add_option("--data", arguments->data, "Folder of the data set")->type_name("DIR");
  command->footer("Example: tautline plan configs/jobs/fashion_lenet.textproto --budget 6MiB");
  command->callback([arguments, &status] { status = become_worker(*arguments); });
}

}  // namespace taut::cli
