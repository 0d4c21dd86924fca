#include "cli/commands/training/lab.hpp"

#include <memory>

#include "cli/commands/job_arguments.hpp"
#include "cli/commands/training/lab_schedule.hpp"

namespace taut::cli {
namespace {

/// Limits for a cluster that need not exist, and so has as many as it is said to have.
constexpr std::uint64_t kMaxServers = 4096;
constexpr std::uint64_t kMaxWorkers = 100'000;

void add_training(Command& lab, LabOptions& options) {
  constexpr std::uint64_t kMaxThreads = 1024;
  TrainOptions& train = options.train;
  lab.text("JOB", train.job_file, "Job or solver file (default: LeNet on Fashion-MNIST)")
      .value("FILE");
  lab.text("--cluster", options.cluster,
           "Cluster file of the lab: hosts, links, times (default: this machine, measured first)")
      .value("FILE");
  lab.whole_number("--servers", train.servers, "Servers", 1, kMaxServers)
      .by_default(std::to_string(train.servers));
  lab.whole_number("--shards", train.shards, "Shards (threads) of each server", 1, kMaxProcesses)
      .by_default(std::to_string(train.shards));
  lab.whole_number("--threads", train.threads,
                   "Compute threads; results are bit-identical to workers with that many", 1,
                   kMaxThreads)
      .by_default(std::to_string(train.threads));
  lab.flag(
      "--no-overlap", [&train] { train.overlap = false; },
      "An iteration's updates are sent when all of them are ready, and the next iteration starts "
      "when all parameters have arrived");
  lab.flag(
      "--no-learning", [&options] { options.learns = false; },
      "Computes nothing: only times, bytes and waits, for many workers");
  lab.text(
         "--records", options.records,
         "What is written to the run's folder: metrics (metrics.csv), tensorboard, timeline, all, "
         "none; ',' between them")
      .by_default(options.records);
  lab.flag(
      "--no-records", [&options] { options.records = "none"; },
      "Writes no metrics.csv of workers: --records none");
  lab.flag("--timeline", options.timeline,
           "Writes timeline.json, with what each process and link did when, for ui.perfetto.dev, "
           "and draws a few clocks");
  lab.byte_size(
      "--memory-limit", options.memory_limit,
      "Ends with an error if the lab would take more memory, e.g. 4GiB (default: no limit)");
  lab.text("--output", train.output, "The run's folder (default: runs/DATE-JOB-N)").value("DIR");
  lab.flag("--force", train.force, "Replaces a run that is in the folder of --output");
  lab.flag("--json", train.json,
           "Prints the summary as one JSON object on a line, and no progress");
}

/// The lab's timeline is one of all processes, not of a worker.
void settle_records(LabOptions& options) {
  options.train.records = parse_records(options.records);
  if (!options.train.records.timeline()) return;
  options.train.records.set_timeline(false);
  options.timeline = true;
}

}  // namespace

void add_lab(Command& lab, int& status) {
  auto options = std::make_shared<LabOptions>();
  add_training(lab, *options);
  add_job_options(lab, std::shared_ptr<JobOptions>(options, &options->train.job), kMaxWorkers);
  lab.on_run([options, &status] {
    check_job_options(options->train.job);
    settle_records(*options);
    status = run_lab(*options);
  });
  add_lab_calibrate(lab, status);
  add_lab_plan(lab, status);
  add_lab_report(lab, status);
  add_lab_schedule(lab, status);
}

}  // namespace taut::cli
