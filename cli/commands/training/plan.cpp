#include <fmt/format.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>
#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "cli/commands/shared_options.hpp"
#include "cli/install_paths.hpp"

namespace taut::cli {
namespace {

struct PlanArguments {
  std::string job_file;
  std::uint64_t budget = 0;
  std::uint32_t replicas = 1;
  std::string data;
};

/// Becomes the worker, which knows what its operations need. Returns only if that failed.
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
                                    std::to_string(arguments.replicas),
                                    "--speaks-as",
                                    "tautline plan"};
  if (!arguments.data.empty()) words.insert(words.end(), {"--data", arguments.data});
  std::vector<char*> pointers;
  pointers.reserve(words.size() + 1);
  for (std::string& word : words) pointers.push_back(word.data());
  pointers.push_back(nullptr);
  ::execv(pointers[0], pointers.data());
  return fail("plan", fmt::format("{}: {}", words[0], std::strerror(errno)));
}

}  // namespace

void add_plan(Command& command, int& status) {
  constexpr std::uint64_t kMaxReplicas = 1024;
  auto arguments = std::make_shared<PlanArguments>();
  command.text("JOB", arguments->job_file, "Job or solver file").required().value("FILE");
  command.byte_size("--budget", arguments->budget, "Device memory, e.g. 64MiB").required();
  command
      .whole_number("--replicas", arguments->replicas, "Copies of the net in one process", 1,
                    kMaxReplicas)
      .by_default(std::to_string(arguments->replicas));
  command.text("--data", arguments->data, "Folder of the data set").value("DIR");
  command.on_run([arguments, &status] { status = become_worker(*arguments); });
}

}  // namespace taut::cli
