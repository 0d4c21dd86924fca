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
#include "cli/commands/command.hpp"
#include "cli/commands/job_arguments.hpp"
#include "cli/control_client.hpp"
#include "cli/job_records.hpp"
#include "cli/run_origin.hpp"
#include "cli/views/job_text.hpp"
#include "cli/views/progress_display.hpp"
#include "common/stop_signal.hpp"
#include "proto/state_word.hpp"
#include "worker/model/job.hpp"
#include "worker/model/layer_place.hpp"
#include "worker/model/weights.hpp"

namespace taut::cli {
namespace {

struct SubmitOptions {
  std::string job_file;
  bool follow = false;
  JobOptions job;
  CoordinatorOption coordinator;
};

/// Shows the job until it ends. Errors: it failed or was stopped; interrupted; no answer.
Result<void> follow(ControlClient& client, JobId first, const JobWords& words) {
  JobId id = first;
  constexpr auto kBetween = std::chrono::milliseconds(200);
  watch_stop_signals();
  ProgressDisplay display(words);
  while (stop_signal() == 0) {
    TAUT_TRY(const pb::StatusReply status, client.status(id));
    if (status.jobs_size() != 1) return invalid("the coordinator's status does not hold the job");
    const pb::JobStatus& job = status.jobs(0);
    display.show(job);
    if (has_ended(job.state())) {
      if (job.restarted_as() != 0) {
        fmt::print("job {} failed: {}\n", job.job(), job.message());
        id = JobId(job.restarted_as());
        continue;
      }
      if (job.state() != pb::DONE) {
        const std::string hint =
            job.checkpoints().empty()
                ? std::string()
                : "; continue with: " + resume_line(job.checkpoints().rbegin()->folder());
        return invalid(fmt::format("job {} {}: {}{}", job.job(), state_word(job.state()),
                                   job.message(), hint));
      }
      fmt::print("job {} done in {:.1f} s\n", job.job(), job.running_s());
      if (!job.parameters_sha256().empty()) {
        fmt::print("parameters sha256: {}\n", job.parameters_sha256());
      }
      if (!job.run_folder().empty()) fmt::print("run folder: {}\n", job.run_folder());
      return ok();
    }
    std::this_thread::sleep_for(kBetween);
  }
  return make_error(
      ErrorCode::kClosed,
      fmt::format("interrupted; job {0} continues: tautline stop {0} ends it", id.value()));
}

/// Reads the weights that are on this machine, and says what matches the net.
Result<void> settle_weights(const SubmitOptions& options, pb::Job& job) {
  TAUT_TRY(model::settle_weights(options.job_file, options.job_file, job));
  for (const std::string& file : job.weights()) {
    std::error_code ignored;
    if (std::filesystem::exists(file, ignored)) continue;
    fmt::print(stderr,
               "warning: weights {} do not exist on this machine; servers and workers need them\n",
               file);
    return ok();
  }
  const JobRecords known = records_of(job);
  if (!known.unknown.empty()) return ok();
  TAUT_TRY(const std::string weights,
           model::match_job_weights(job, known.records.graph_options(pb::TRAIN)));
  if (!weights.empty()) fmt::print("weights: {}\n", weights);
  return ok();
}

/// The job's warnings. If the data is not on this machine, the workers check the nets' shapes.
Result<std::vector<std::string>> check(const pb::Job& job) {
  const JobRecords known = records_of(job);
  return known.unknown.empty() ? model::check_job(job, known.records)
                               : model::check_job_itself(job);
}

/// Prints the job's warnings.
/// given  the job without the options
Result<void> warn(const SubmitOptions& options, const pb::Job& given, const pb::Job& job) {
  auto checked = check(job);
  if (!checked) {
    blame_options(options.job, given, checked.error().message,
                  [](const pb::Job& one) { return check(one).has_value(); });
  }
  TAUT_TRY(const std::vector<std::string> warnings, std::move(checked));
  for (const std::string& warning : warnings) fmt::print(stderr, "warning: {}\n", warning);
  return ok();
}

Result<void> submit(const SubmitOptions& options) {
  TAUT_TRY(const std::string address, options.coordinator.resolve());
  TAUT_TRY(pb::Job job, model::load_job(options.job_file));
  const pb::Job given = job;
  put_over(options.job, job);
  settle_checkpoint_paths("checkpoints", job);
  settle_last_checkpoint(job);
  TAUT_TRY(warn(options, given, job));
  TAUT_TRY(settle_weights(options, job));
  TAUT_TRY(auto client, connect_control(address, options.coordinator.wait_s));
  TAUT_TRY(const pb::SubmitReply reply, client.submit(job));
  fmt::print(
      "job {0} submitted{1}\n", reply.job(),
      options.follow ? "" : fmt::format("; tautline status {} --watch follows it", reply.job()));
  if (!reply.message().empty()) fmt::print("{}\n", reply.message());
  std::fflush(stdout);
  return options.follow ? follow(client, JobId(reply.job()), words_of(job)) : ok();
}

}  // namespace

void add_submit(Command& command, int& status) {
  auto options = std::make_shared<SubmitOptions>();
  command.text("JOB", options->job_file, "Job or solver file; the files it names are sent with it")
      .required()
      .value("FILE");
  // Paths are the servers' and the workers'.
  add_job_options(command, std::shared_ptr<JobOptions>(options, &options->job));
  command.flag("--follow", options->follow, "Shows its progress until it ends");
  options->coordinator.add_to(command);
  command.on_run([options, &status] {
    check_job_options(options->job);
    const Result<void> done = submit(*options);
    if (done) return;
    status = fail("submit", model::with_layer_place(options->job_file, done.error().message));
  });
}

}  // namespace taut::cli
