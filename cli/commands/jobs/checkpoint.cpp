#include <fmt/format.h>

#include <cstdint>
#include <cstdio>
#include <memory>
#include <string>
#include <thread>

#include "cli/commands/shared_options.hpp"
#include "common/system/stop_signal.hpp"
#include "proto/session/control_client.hpp"
#include "proto/state_word.hpp"

namespace taut::cli {
namespace {

constexpr auto kBetweenLooks = std::chrono::milliseconds(50);

struct CheckpointOptions {
  std::uint64_t job = 0;
  bool no_wait = false;
  CoordinatorOption coordinator;
};

/// Waits until a job has another checkpoint than `before`. Returns where it is.
/// Errors    the job ended without one; interrupted
Result<std::string> await_checkpoint(ControlClient& client, JobId id, const std::string& before) {
  watch_stop_signals();
  while (stop_signal() == 0) {
    TAUT_TRY(const pb::StatusReply status, client.status(id));
    const pb::JobStatus& job = status.jobs(0);
    const int count = job.checkpoints_size();
    const std::string newest = count > 0 ? job.checkpoints(count - 1).folder() : "";
    if (newest != before) return newest;
    if (job.state() != pb::RUNNING) {
      return invalid(
          fmt::format("job {} is {}, and has written none", id.value(), state_word(job.state())));
    }
    if (!job.checkpoint_failure().empty()) return invalid(job.checkpoint_failure());
    std::this_thread::sleep_for(kBetweenLooks);
  }
  return make_error(ErrorCode::kClosed, "interrupted; the checkpoint is still being written");
}

/// The folder of a job's newest checkpoint; empty if it has none, or the job is unknown.
Result<std::string> newest(ControlClient& client, JobId id) {
  TAUT_TRY(const pb::StatusReply status, client.status(id));
  for (const pb::JobStatus& job : status.jobs()) {
    const bool is_it = id == JobId() ? job.state() == pb::RUNNING : job.job() == id.value();
    if (is_it && job.checkpoints_size() > 0) return job.checkpoints().rbegin()->folder();
  }
  return std::string();
}

Result<void> checkpoint(const CheckpointOptions& options) {
  TAUT_TRY(auto client, options.coordinator.connect());
  TAUT_TRY(const std::string before, newest(client, JobId(options.job)));
  TAUT_TRY(const pb::CommandReply ordered, client.checkpoint(JobId(options.job)));
  fmt::print("{}\n", ordered.message());
  std::fflush(stdout);
  if (options.no_wait) return ok();
  TAUT_TRY(const std::string folder, await_checkpoint(client, JobId(ordered.job()), before));
  fmt::print("written: {}\n", folder);
  return ok();
}

}  // namespace

void add_checkpoint(Command& command, int& status) {
  auto options = std::make_shared<CheckpointOptions>();
  command.whole_number("JOB", options->job, "Number of the job (default: the running one)", 1);
  command.flag("--no-wait", options->no_wait, "Returns once it is ordered");
  options->coordinator.add_to(command);
  command.on_run([options, &status] {
    const Result<void> done = checkpoint(*options);
    if (!done) status = fail("checkpoint", done.error().message);
  });
}

}  // namespace taut::cli
