#include "cli/commands/jobs/follow_job.hpp"

#include <fmt/format.h>

#include <thread>

#include "cli/views/draw.hpp"
#include "cli/views/job_text.hpp"
#include "cli/views/progress_display.hpp"
#include "common/system/stop_signal.hpp"
#include "proto/state_word.hpp"

namespace taut::cli {
namespace {

Error ended_early(const pb::JobStatus& job, const ContinueLine& line) {
  std::string message =
      fmt::format("job {} {}: {}", job.job(), state_word(job.state()), job.message());
  if (!job.checkpoints().empty()) {
    message += job.diverged()
                   ? "\n  with a lower base_lr, continue from its last good checkpoint with: "
                   : "\n  continue with: ";
    message += line(job);
  }
  return invalid(std::move(message));
}

void print_end(const pb::JobStatus& job) {
  fmt::print("job {} done in {:.1f} s\n", job.job(), job.running_s());
  if (!job.message().empty()) fmt::print("note: {}\n", job.message());
  if (!job.parameters_sha256().empty()) {
    fmt::print("parameters sha256: {}\n", job.parameters_sha256());
  }
  for (const pb::KeptCheckpoint& kept : job.checkpoints()) {
    fmt::print("checkpoint at {}: {}\n", grouped(kept.clock()), kept.folder());
  }
  if (!job.checkpoint_failure().empty()) fmt::print("{}\n", job.checkpoint_failure());
  if (!job.run_folder().empty()) fmt::print("run folder: {}\n", job.run_folder());
}

}  // namespace

Result<void> follow_job(ControlClient& client, JobId first, const JobWords& words,
                        const ContinueLine& line) {
  JobId id = first;
  constexpr auto kBetween = std::chrono::milliseconds(200);
  watch_stop_signals();
  ProgressDisplay display(words);
  while (stop_signal() == 0) {
    TAUT_TRY(const pb::StatusReply status, client.status(id));
    if (status.jobs_size() != 1) return invalid("the coordinator's status does not hold the job");
    const pb::JobStatus& job = status.jobs(0);
    display.show(job);
    if (job.state() == pb::DONE) {
      print_end(job);
      return ok();
    }
    if (has_ended(job.state())) {
      if (job.restarted_as() == 0) return ended_early(job, line);
      fmt::print("job {} {}: {}; {}\n", job.job(), state_word(job.state()), job.message(),
                 job.advice());
      id = JobId(job.restarted_as());
      continue;
    }
    std::this_thread::sleep_for(kBetween);
  }
  return make_error(
      ErrorCode::kClosed,
      fmt::format("interrupted; job {0} continues: tautline stop {0} ends it", id.value()));
}

}  // namespace taut::cli
