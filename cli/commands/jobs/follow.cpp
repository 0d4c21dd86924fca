#include <fmt/format.h>

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "cli/commands/jobs/follow_job.hpp"
#include "cli/commands/shared_options.hpp"
#include "cli/views/job_text.hpp"
#include "proto/session/control_client.hpp"

namespace taut::cli {
namespace {

struct FollowOptions {
  std::uint64_t job = 0;
  CoordinatorOption coordinator;
};

/// The only job that has not ended.
Result<JobId> only_job(ControlClient& client) {
  TAUT_TRY(const pb::StatusReply status, client.status());
  std::vector<std::string> jobs;
  JobId only;
  for (const pb::JobStatus& job : status.jobs()) {
    if (has_ended(job.state())) continue;
    only = JobId(job.job());
    jobs.push_back(std::to_string(job.job()));
  }
  if (jobs.empty()) return invalid("no job runs or waits; tautline status lists those that ended");
  if (jobs.size() > 1) {
    return invalid(
        fmt::format("{} jobs run or wait: name one of {}", jobs.size(), fmt::join(jobs, ", ")));
  }
  return only;
}

Result<void> follow(const FollowOptions& options) {
  TAUT_TRY(auto client, options.coordinator.connect());
  JobId id(options.job);
  if (id == JobId()) {
    TAUT_TRY(id, only_job(client));
  }
  TAUT_TRY(const pb::JobStatus job, client.job(id));
  return follow_job(client, id, words_of(job.definition()), [](const pb::JobStatus& ended) {
    return fmt::format("tautline resume {} --follow", ended.job());
  });
}

}  // namespace

void add_follow(Command& command, int& status) {
  auto options = std::make_shared<FollowOptions>();
  command.whole_number("JOB", options->job, "Number of the job (default: the only one)", 1);
  options->coordinator.add_to(command);
  command.on_run([options, &status] {
    const Result<void> done = follow(*options);
    if (!done) status = fail("follow", done.error().message);
  });
}

}  // namespace taut::cli
