#include <fmt/format.h>

#include <cstdio>
#include <filesystem>
#include <memory>
#include <string>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

#include "cli/checkpoint_paths.hpp"
#include "cli/command.hpp"
#include "cli/control_client.hpp"
#include "cli/job_view.hpp"
#include "cli/progress_display.hpp"
#include "cli/record_shape.hpp"
#include "common/stop_signal.hpp"
#include "proto/state_word.hpp"
#include "worker/model/job.hpp"
#include "worker/model/weights.hpp"

namespace taut::cli {
namespace {

struct SubmitOptions {
  std::string job_file;
  bool follow = false;
  std::string resume;
  std::vector<std::string> weights;
  CoordinatorOption coordinator;
};

/// Shows the job until it ends. Errors: it failed or was stopped; interrupted; no answer.
Result<void> follow(ControlClient& client, JobId id) {
  constexpr auto kBetween = std::chrono::milliseconds(200);
  watch_stop_signals();
  ProgressDisplay display;
  while (stop_signal() == 0) {
    TAUT_TRY(const pb::StatusReply status, client.status(id));
    if (status.jobs_size() != 1) return invalid("the coordinator's status does not hold the job");
    const pb::JobStatus& job = status.jobs(0);
    display.show(job);
    if (has_ended(job.state())) {
      if (job.state() != pb::DONE) {
        return invalid(
            fmt::format("job {} {}: {}", job.job(), state_word(job.state()), job.message()));
      }
      fmt::print("job {} done in {:.1f} s\n", job.job(), job.running_s());
      if (!job.parameters_sha256().empty()) {
        fmt::print("parameters sha256: {}\n", job.parameters_sha256());
      }
      return ok();
    }
    std::this_thread::sleep_for(kBetween);
  }
  return make_error(
      ErrorCode::kClosed,
      fmt::format("interrupted; job {0} goes on: tautline stop {0} ends it", id.value()));
}

/// Puts --weights in the place of the job's, and says what matches where that is known here.
Result<void> settle_weights(const SubmitOptions& options, pb::Job& job) {
  if (!options.weights.empty()) job.clear_weights();
  for (const std::string& file : options.weights) job.add_weights(file);
  TAUT_TRY(model::settle_weights(options.job_file, options.job_file, job));
  for (const std::string& file : job.weights()) {
    std::error_code ignored;
    if (std::filesystem::exists(file, ignored)) continue;
    fmt::print(stderr, "warning: weights {} is not here; servers and workers must have it\n", file);
    return ok();
  }
  const JobRecords known = records_of(job);
  if (!known.unknown.empty()) return ok();
  TAUT_TRY(const std::string weights,
           model::match_job_weights(job, known.records.graph_options(pb::TRAIN)));
  if (!weights.empty()) fmt::print("weights: {}\n", weights);
  return ok();
}

/// Says what the job is to be warned of. Where the data is not on this machine, the shapes of its nets
/// are found out by the workers.
Result<void> warn(const pb::Job& job) {
  const JobRecords known = records_of(job);
  auto checked =
      known.unknown.empty() ? model::check_job(job, known.records) : model::check_job_itself(job);
  TAUT_TRY(const std::vector<std::string> warnings, std::move(checked));
  for (const std::string& warning : warnings) fmt::print(stderr, "warning: {}\n", warning);
  return ok();
}

Result<void> submit(const SubmitOptions& options) {
  TAUT_TRY(const std::string address, options.coordinator.resolve());
  TAUT_TRY(pb::Job job, model::load_job(options.job_file));
  if (!options.resume.empty()) job.set_resume(options.resume);
  settle_checkpoint_paths("checkpoints", job);
  TAUT_TRY(warn(job));
  TAUT_TRY(settle_weights(options, job));
  TAUT_TRY(auto client, connect_control(address, options.coordinator.wait_s));
  TAUT_TRY(const pb::SubmitReply reply, client.submit(job));
  fmt::print(
      "job {0} submitted{1}\n", reply.job(),
      options.follow ? "" : fmt::format("; tautline status {} --watch follows it", reply.job()));
  if (!reply.message().empty()) fmt::print("{}\n", reply.message());
  std::fflush(stdout);
  return options.follow ? follow(client, JobId(reply.job())) : ok();
}

}  // namespace

void add_submit(CLI::App& app, int& status) {
  auto options = std::make_shared<SubmitOptions>();
  CLI::App* command = app.add_subcommand("submit", "Hands a job to the coordinator");
  command->add_option("JOB", options->job_file, "Job file; the files it names go along")
      ->required();
  command
      ->add_option("--weights", options->weights,
                   "Begins with trained parameters (.safetensors, .caffemodel), under a path that "
                   "servers and workers have too; several with ',' between them")
      ->delimiter(',')
      ->type_name("FILE");
  command->add_flag("--follow", options->follow, "Shows its progress until it ends");
  command
      ->add_option("--resume", options->resume,
                   "Goes on from a checkpoint: its folder, or the folder of several for the newest")
      ->type_name("DIR");
  options->coordinator.add_to(*command);
  command->footer("Example: tautline submit configs/jobs/fashion_lenet.textproto");
  command->callback([options, &status] {
    const Result<void> done = submit(*options);
    if (!done) status = fail("submit", done.error().message);
  });
}

}  // namespace taut::cli
