#include <fmt/format.h>

#include <cstdlib>
#include <memory>
#include <string>

#include "cli/commands/job_arguments.hpp"
#include "cli/commands/shared_options.hpp"
#include "cli/node/node_place.hpp"
#include "cli/node/node_run.hpp"
#include "common/system/rack_name.hpp"

namespace taut::cli {
namespace {

/// The options as they were typed.
struct NodeArguments {
  NodeOptions options;
  std::string device = "auto";
  std::string workers = "auto";
  DataSecurityOption data_security;
};

std::string check_workers(const std::string& text) {
  if (text == "auto") return {};
  if (command_line::check_whole_number(text, 0, kMaxProcesses).empty()) return {};
  return fmt::format("must be auto or a whole number from 0 to {}, is {}", kMaxProcesses,
                     command_line::in_quotes(text));
}

void add_share_options(Command& command, NodeArguments& arguments) {
  constexpr std::uint64_t kMaxThreads = 1024;
  NodeOptions& options = arguments.options;
  command
      .whole_number("--servers-per-node", options.servers_per_node, "Server processes of each node",
                    0, kMaxProcesses)
      .by_default(std::to_string(options.servers_per_node));
  command
      .whole_number("--shards", options.shards, "Shards (threads) of each server", 1, kMaxProcesses)
      .by_default(std::to_string(options.shards));
  command
      .text("--workers-per-node", arguments.workers,
            "Worker processes of each node; auto: one for each CUDA device, one where there is "
            "none")
      .value("NUMBER|auto")
      .check(check_workers)
      .by_default(arguments.workers);
  command
      .one_of("--device", arguments.device, "What the workers compute on", {"auto", "cpu", "cuda"})
      .by_default(arguments.device);
  command
      .whole_number("--threads", options.threads, "Compute threads of each worker on the CPU", 1,
                    kMaxThreads)
      .by_default(std::to_string(options.threads));
  command.byte_size("--device-memory-budget", options.device_memory_budget,
                    "Device memory that each worker may use, e.g. 64MiB");
  arguments.data_security.add_to(command);
}

void settle(NodeArguments& arguments) {
  NodeOptions& options = arguments.options;
  check_job_options(options.job);
  options.data_security = arguments.data_security.value();
  if (arguments.device == "cpu") options.device = pb::WorkerConfig::CPU;
  if (arguments.device == "cuda") options.device = pb::WorkerConfig::CUDA;
  if (arguments.workers != "auto") {
    options.workers_per_node = static_cast<std::uint32_t>(std::stoul(arguments.workers));
  }
}

}  // namespace

void add_node(Command& command, int& status) {
  auto arguments = std::make_shared<NodeArguments>();
  NodeOptions& options = arguments->options;
  command
      .text("JOB", options.job_file,
            "Job or solver file; without one the nodes wait for submitted jobs")
      .value("FILE");
  add_job_options(command, std::shared_ptr<JobOptions>(arguments, &options.job));
  add_share_options(command, *arguments);
  command
      .text("--output", options.output,
            "The run's folder, visible to all nodes (default: runs/ENGINE-RUN-JOB)")
      .value("DIR");
  command
      .text("--host", options.host,
            "The name or address by which the other nodes reach this one (default: found)")
      .value("HOST");
  command
      .text("--rack", options.rack,
            "The rack or switch of this node; jobs prefer workers of one rack (default: the switch "
            "that Slurm names)")
      .value("NAME")
      .check(check_rack);
  command
      .number("--wait", options.wait_s, "How long nodes wait for each other", "SECONDS",
              {.min = 1, .max = 86400})
      .by_default("300");
  command.flag("--check", options.check,
               "Has all nodes examined before the job starts, as tautline doctor --cluster does; "
               "trouble ends the run");
  command
      .number("--save-within", options.save_s,
              "Time limit for the checkpoint of a run that receives SIGTERM or SIGUSR1; less than "
              "the engine waits",
              "SECONDS", {.min = 0, .max = 86400})
      .by_default("25");
  command.on_run([arguments, &status] {
    settle(*arguments);
    const auto place = find_place([](const char* name) { return std::getenv(name); });
    if (!place) {
      status = fail("node", place.error().message);
      return;
    }
    if (arguments->options.rack.empty()) arguments->options.rack = place.value().rack;
    status = run_node(arguments->options, place.value());
  });
}

}  // namespace taut::cli
