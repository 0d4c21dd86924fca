#include "cli/train.hpp"

#include <fmt/format.h>

#include <cctype>
#include <memory>
#include <set>
#include <sstream>
#include <string>

#include "cli/command.hpp"
#include "proto/cluster_config.hpp"

namespace taut::cli {
namespace {

/// The options as they stand on the command line.
struct TrainArguments {
  TrainOptions options;
  std::string device = "auto";
  std::string device_index;
  std::string mode;
  std::string pin;
  std::string records = "metrics";
};

std::string upper(std::string word) {
  for (char& c : word) c = static_cast<char>(std::toupper(static_cast<unsigned char>(c)));
  return word;
}

/// What workers are to write down. Throws CLI::ValidationError.
pb::RecordsConfig records_of(const std::string& words) {
  pb::RecordsConfig records;
  std::istringstream parts(words);
  for (std::string part; std::getline(parts, part, ',');) {
    if (part == "metrics" || part == "all") records.set_metrics(true);
    if (part == "tensorboard" || part == "all") records.set_tensorboard(true);
    if (part == "timeline" || part == "all") records.set_timeline(true);
    static const std::set<std::string> known{"metrics", "tensorboard", "timeline", "all", "none"};
    if (!known.contains(part)) {
      throw CLI::ValidationError("--records",
                                 fmt::format("\"{}\" is no record; name metrics, tensorboard, "
                                             "timeline, all or none, with ',' between them",
                                             part));
    }
  }
  return records;
}

/// Throws CLI::ValidationError for an address that the page cannot be served at.
void check_dashboard(const std::string& address) {
  if (address.empty()) return;
  if (!is_address(address)) {
    throw CLI::ValidationError(
        "--dashboard", fmt::format("\"{}\" is not HOST:PORT, e.g. 127.0.0.1:7680", address));
  }
  if (check_listen_address(address, pb::ClusterConfig())) return;
  throw CLI::ValidationError(
      "--dashboard",
      fmt::format(
          "{} is not a loopback address: whoever reaches the page can change the job. Serve "
          "it at 127.0.0.1:7680 and reach that by ssh -L 7680:127.0.0.1:7680 HOST",
          address));
}

/// "0,1:2,3": the devices of one worker, and those of the next. Throws CLI::ValidationError.
std::vector<std::vector<std::uint32_t>> device_indices_of(const std::string& text) {
  std::vector<std::vector<std::uint32_t>> workers;
  std::istringstream parts(text);
  for (std::string part; std::getline(parts, part, ':');) {
    auto& devices = workers.emplace_back();
    std::istringstream numbers(part);
    for (std::string number; std::getline(numbers, number, ',');) {
      constexpr std::size_t kMostDigits = 4;
      const bool is_number = !number.empty() && number.size() <= kMostDigits &&
                             number.find_first_not_of("0123456789") == std::string::npos;
      if (!is_number) {
        throw CLI::ValidationError(
            "--device-index",
            fmt::format("\"{}\" in \"{}\" is no device's number, e.g. 0:1 or 0,1:2,3", number,
                        text));
      }
      devices.push_back(static_cast<std::uint32_t>(std::stoul(number)));
    }
    if (devices.empty()) {
      throw CLI::ValidationError("--device-index",
                                 fmt::format("\"{}\" has a worker without a device", text));
    }
  }
  return workers;
}

/// What the words stand for. Throws CLI::ValidationError for options that contradict each other.
void settle(TrainArguments& arguments) {
  TrainOptions& options = arguments.options;
  // CLI11 let only words through that name one.
  pb::WorkerConfig::Device_Parse(upper(arguments.device), &options.device);
  if (pb::Consistency::Mode mode{}; pb::Consistency::Mode_Parse(upper(arguments.mode), &mode)) {
    options.mode = mode;
  }
  if (options.slack && options.mode) {
    const bool bsp = *options.mode == pb::Consistency::BSP && *options.slack > 0;
    const bool ssp = *options.mode == pb::Consistency::SSP && *options.slack == 0;
    if (bsp || ssp || *options.mode == pb::Consistency::ASYNC) {
      throw CLI::ValidationError(
          "--slack", fmt::format("{} does not go with --mode {}: bsp is slack 0, ssp 1 "
                                 "or more, async has none",
                                 *options.slack, pb::Consistency::Mode_Name(*options.mode)));
    }
  }
  options.records = records_of(arguments.records);
  check_dashboard(options.dashboard);
  options.device_indices = device_indices_of(arguments.device_index);
  if (arguments.pin.empty()) return;
  std::istringstream parts(arguments.pin);
  for (std::string part; std::getline(parts, part, ':');) options.pins.push_back(part);
  if (!options.workers) options.workers = static_cast<std::uint32_t>(options.pins.size());
  if (options.pins.size() != *options.workers) {
    throw CLI::ValidationError("--pin",
                               fmt::format("\"{}\" is for {} workers, there are {}", arguments.pin,
                                           options.pins.size(), *options.workers));
  }
}

void add_cluster_options(CLI::App& command, TrainArguments& arguments) {
  TrainOptions& options = arguments.options;
  constexpr int kMostProcesses = 256;
  command.add_option("--servers", options.servers, "Server processes")
      ->check(CLI::Range(1, kMostProcesses))
      ->capture_default_str();
  command.add_option("--shards", options.shards, "Shards (threads) of each server")
      ->check(CLI::Range(1, kMostProcesses))
      ->capture_default_str();
  command.add_option("--workers", options.workers, "Worker processes (default: the job's)")
      ->check(CLI::Range(1, kMostProcesses));
  command.add_option("--device", arguments.device, "What the workers compute on")
      ->check(CLI::IsMember({"auto", "cpu", "cuda"}))
      ->capture_default_str();
  command.add_option("--device-index", arguments.device_index,
                     "CUDA devices of each worker, with ':' between workers, taken in turn: 0:1 "
                     "spreads workers over two, 0,1 gives every worker both");
  command.add_option("--threads", options.threads, "Compute threads of each worker on the CPU")
      ->check(CLI::Range(1, 1024))
      ->capture_default_str();
  command
      .add_option("--device-memory-budget", options.device_memory_budget,
                  "Device memory that each worker may take, e.g. 64MiB; what does not fit is "
                  "swapped to the host's")
      ->transform(CLI::AsSizeValue(false))
      ->type_name("SIZE");
  command
      .add_option("--dashboard", options.dashboard,
                  "Serve the page there while it trains, e.g. 127.0.0.1:7680")
      ->type_name("HOST:PORT");
  command.add_option("--pin", arguments.pin,
                     "Processors of each worker, with ':' between workers, e.g. 0:1 or 0,1:2,3");
}

void add_job_options(CLI::App& command, TrainArguments& arguments) {
  TrainOptions& options = arguments.options;
  command.add_option("--mode", arguments.mode, "How consistent to be (default: the job's)")
      ->check(CLI::IsMember({"bsp", "ssp", "async"}));
  command.add_option("--slack", options.slack,
                     "How many clocks a worker's reads may be behind; 0 is bsp");
  command.add_option("--max-iter", options.max_iter, "Iterations of each worker")
      ->check(CLI::PositiveNumber);
  command.add_option("--seed", options.seed, "Of the initial values and of what is drawn");
  command
      .add_option("--records", arguments.records,
                  "What is written into the run's folder: metrics (metrics.csv), tensorboard, "
                  "timeline, all, none; ',' between them")
      ->capture_default_str();
  command
      .add_option("--straggler", options.stragglers,
                  "For experiments: slows workers down, e.g. \"worker: 1 slowdown: 3\"; may be "
                  "given several times")
      ->type_name("TEXT");
  command
      .add_option("--clock-time", options.clock_time_ms,
                  "For experiments: makes every clock of a worker at least so long")
      ->type_name("MS");
  command
      .add_option("--weights", options.weights,
                  "Begins with trained parameters, matched by the layers' names (.safetensors, "
                  ".caffemodel); several files with ',' between them")
      ->delimiter(',')
      ->type_name("FILE");
  command.add_flag(
      "!--no-overlap", options.overlap,
      "For experiments: an iteration's updates leave when all of them are ready, and the "
      "next begins when all parameters have come");
  command.add_option("--data", options.data, "Folder of the data set")->type_name("DIR");
  command
      .add_option("--resume", options.resume,
                  "Goes on from a checkpoint: its folder, or the folder of several for the newest")
      ->type_name("DIR");
  command.add_option("--output", options.output, "The run's folder (default: runs/DATE-JOB-N)")
      ->type_name("DIR");
}

}  // namespace

void add_train(CLI::App& app, int& status) {
  auto arguments = std::make_shared<TrainArguments>();
  CLI::App* command =
      app.add_subcommand("train",
                         "Trains on this machine: starts servers and workers, shows "
                         "progress, ends with a summary");
  command->add_option("JOB", arguments->options.job_file,
                      "Job or solver file (default: LeNet on Fashion-MNIST)");
  add_cluster_options(*command, *arguments);
  add_job_options(*command, *arguments);
  command->footer(
      "Example: tautline train configs/jobs/fashion_lenet.textproto --workers 2 --mode ssp --slack "
      "3");
  command->callback([arguments, &status] {
    settle(*arguments);
    status = run_train(arguments->options);
  });
}

}  // namespace taut::cli
