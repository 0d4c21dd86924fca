#include <fmt/format.h>

#include <memory>
#include <optional>
#include <string>

#include "cli/commands/job_arguments.hpp"
#include "cli/commands/shared_options.hpp"
#include "cli/commands/training/lab.hpp"
#include "cli/commands/training/process_times.hpp"
#include "common/files/file.hpp"
#include "lab/training/costs/calibrate.hpp"
#include "lab/training/costs/table_bytes.hpp"
#include "proto/config/text.hpp"

namespace taut::cli {
namespace {

struct CalibrateOptions {
  TrainOptions train;
  std::uint32_t processes = 0;  // workers of the real trainings to measure; 0: none
  std::string output;
};

Result<void> calibrate(const CalibrateOptions& options) {
  TAUT_TRY(const pb::Job job, training_job(options.train));
  std::optional<lab::ProcessTimes> times;
  if (options.processes > 0) {
    TAUT_TRY(times, measure_processes(job, options.train.threads, options.processes));
  }
  TAUT_TRY(const pb::LabCluster cluster, lab::calibrate(job, options.train.threads, times));
  TAUT_TRY(const std::string tables, lab::table_bytes_comment(job));
  const std::string text = tables + to_text(cluster);
  if (options.output.empty()) {
    fmt::print("{}", text);
    return ok();
  }
  TAUT_TRY(write_file_atomically(options.output, text));
  fmt::print("{}: this machine; add hosts and links, or change its numbers\n", options.output);
  return ok();
}

}  // namespace

void add_lab_calibrate(Command& lab, int& status) {
  constexpr std::uint64_t kMaxThreads = 1024;
  auto options = std::make_shared<CalibrateOptions>();
  Command command =
      lab.command("calibrate", "Measures this machine for a job, and writes it as a cluster file",
                  "Example: tautline lab calibrate --output this.textproto");
  command
      .text("JOB", options->train.job_file, "Job or solver file (default: LeNet on Fashion-MNIST)")
      .value("FILE");
  command.text("--output", options->output, "The cluster file (default: printed)").value("FILE");
  command.whole_number("--threads", options->train.threads, "Threads that compute", 1, kMaxThreads)
      .by_default(std::to_string(options->train.threads));
  command.whole_number("--processes", options->processes,
                       "Also trains with this many real workers and a server: their processor time "
                       "beyond the compute becomes the cost of messages",
                       1, kMaxProcesses);
  add_job_options(command, std::shared_ptr<JobOptions>(options, &options->train.job));
  command.on_run([options, &status] {
    if (const auto done = calibrate(*options); !done) {
      status = fail("lab calibrate", done.error().message);
    }
  });
}

}  // namespace taut::cli
