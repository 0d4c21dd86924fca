#include "cli/commands/training/train.hpp"

#include <fmt/format.h>

#include <memory>
#include <sstream>
#include <string>
#include <vector>

#include "cli/commands/job_arguments.hpp"
#include "cli/commands/shared_options.hpp"
#include "proto/config/cluster_config.hpp"

namespace taut::cli {
namespace {

/// The options as they were typed.
struct TrainArguments {
  TrainOptions options;
  std::string device = "auto";
  std::string device_index;
  std::string pin;
  std::string records = "metrics";
};

/// What is wrong with an address for the page; empty if nothing is.
std::string check_dashboard(const std::string& address) {
  if (!is_address(address)) {
    return fmt::format("must be HOST:PORT, e.g. 127.0.0.1:7680, is {}",
                       command_line::in_quotes(address));
  }
  if (check_http_address(address, pb::ClusterConfig())) return {};
  return fmt::format(
      "must be a loopback address, is {}: everyone who reaches the page can change the job. Serve "
      "it at 127.0.0.1:7680 and reach that by ssh -L 7680:127.0.0.1:7680 HOST",
      address);
}

/// "0,1:2,3": the devices of one worker, and those of the next. Throws UsageError.
std::vector<std::vector<std::uint32_t>> device_indices_of(const std::string& text) {
  constexpr std::uint64_t kMaxIndex = 1023;
  std::vector<std::vector<std::uint32_t>> workers;
  std::istringstream parts(text);
  for (std::string part; std::getline(parts, part, ':');) {
    auto& devices = workers.emplace_back();
    std::istringstream numbers(part);
    for (std::string number; std::getline(numbers, number, ',');) {
      if (const std::string wrong = command_line::check_whole_number(number, 0, kMaxIndex);
          !wrong.empty()) {
        throw UsageError(fmt::format("--device-index: each device {}, e.g. 0:1 or 0,1:2,3", wrong));
      }
      devices.push_back(static_cast<std::uint32_t>(std::stoul(number)));
    }
    if (devices.empty()) {
      throw UsageError(fmt::format("--device-index: {} has a worker without a device",
                                   command_line::in_quotes(text)));
    }
  }
  return workers;
}

/// Reads options that have several parts. Throws UsageError for options that contradict each other.
void settle(TrainArguments& arguments) {
  TrainOptions& options = arguments.options;
  if (arguments.device == "cpu") options.device = pb::WorkerConfig::CPU;
  if (arguments.device == "cuda") options.device = pb::WorkerConfig::CUDA;
  check_job_options(options.job);
  options.records = parse_records(arguments.records);
  options.device_indices = device_indices_of(arguments.device_index);
  if (arguments.pin.empty()) return;
  std::istringstream parts(arguments.pin);
  for (std::string part; std::getline(parts, part, ':');) options.pins.push_back(part);
  auto& workers = options.job.workers;
  if (!workers) workers = static_cast<std::uint32_t>(options.pins.size());
  if (options.pins.size() != *workers) {
    throw UsageError(fmt::format("--pin: {} is for {} workers, --workers is {}",
                                 command_line::in_quotes(arguments.pin), options.pins.size(),
                                 *workers));
  }
}

void add_cluster_options(Command& command, TrainArguments& arguments) {
  constexpr std::uint64_t kMaxThreads = 1024;
  TrainOptions& options = arguments.options;
  command.whole_number("--servers", options.servers, "Server processes", 1, kMaxProcesses)
      .by_default(std::to_string(options.servers));
  command
      .whole_number("--shards", options.shards, "Shards (threads) of each server", 1, kMaxProcesses)
      .by_default(std::to_string(options.shards));
  command
      .one_of("--device", arguments.device, "What the workers compute on", {"auto", "cpu", "cuda"})
      .by_default(arguments.device);
  command.text("--device-index", arguments.device_index,
               "CUDA devices of each worker, with ':' between workers, used in turn: 0:1 spreads "
               "workers over two, 0,1 gives every worker both");
  command
      .whole_number("--threads", options.threads, "Compute threads of each worker on the CPU", 1,
                    kMaxThreads)
      .by_default(std::to_string(options.threads));
  command.byte_size("--device-memory-budget", options.device_memory_budget,
                    "Device memory that each worker may use, e.g. 64MiB; what does not fit is "
                    "swapped to the host's");
  command
      .text("--dashboard", options.dashboard,
            "Serves the dashboard there while it trains, e.g. 127.0.0.1:7680")
      .value("HOST:PORT")
      .check(check_dashboard);
  command.text("--pin", arguments.pin,
               "Processors of each worker, with ':' between workers, e.g. 0:1 or 0,1:2,3");
}

void add_run_options(Command& command, TrainArguments& arguments) {
  TrainOptions& options = arguments.options;
  command
      .text(
          "--records", arguments.records,
          "What is written to the run's folder: metrics (metrics.csv), tensorboard, timeline, all, "
          "none; ',' between them")
      .by_default(arguments.records);
  command.flag(
      "--no-overlap", [&options] { options.overlap = false; },
      "For experiments: an iteration's updates are sent when all of them are ready, and the next "
      "iteration starts when all parameters have arrived");
  command.text("--output", options.output, "The run's folder (default: runs/DATE-JOB-N)")
      .value("DIR");
  command.flag("--force", options.force, "Replaces a run that is in the folder of --output");
  command.flag("--discard", options.discard, "Ctrl-C ends it at once; otherwise it is saved first");
  command.flag("--json", options.json,
               "Prints the summary as one JSON object on a line, and no progress");
}

}  // namespace

pb::RecordsConfig parse_records(const std::string& words) {
  pb::RecordsConfig records;
  records.set_metrics(false);
  std::istringstream parts(words);
  for (std::string part; std::getline(parts, part, ',');) {
    static const std::vector<std::string> known{"metrics", "tensorboard", "timeline", "all",
                                                "none"};
    if (const std::string wrong = command_line::check_word(part, known); !wrong.empty()) {
      throw UsageError(fmt::format("--records: each word {}", wrong));
    }
    if (part == "metrics" || part == "all") records.set_metrics(true);
    if (part == "tensorboard" || part == "all") records.set_tensorboard(true);
    if (part == "timeline" || part == "all") records.set_timeline(true);
  }
  return records;
}

void add_train(Command& command, int& status) {
  auto arguments = std::make_shared<TrainArguments>();
  command
      .text("JOB", arguments->options.job_file,
            "Job or solver file (default: LeNet on Fashion-MNIST)")
      .value("FILE");
  add_job_options(command, std::shared_ptr<JobOptions>(arguments, &arguments->options.job));
  add_cluster_options(command, *arguments);
  add_run_options(command, *arguments);
  command.on_run([arguments, &status] {
    settle(*arguments);
    status = run_train(arguments->options);
  });
}

}  // namespace taut::cli
