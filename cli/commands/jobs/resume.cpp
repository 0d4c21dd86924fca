#include <fmt/format.h>

#include <cstdint>
#include <cstdio>
#include <memory>
#include <optional>
#include <string>

#include "cli/commands/jobs/follow_job.hpp"
#include "cli/commands/shared_options.hpp"
#include "cli/run_origin.hpp"
#include "cli/views/job_text.hpp"
#include "proto/config/external_job.hpp"
#include "proto/session/control_client.hpp"
#include "proto/state_word.hpp"

namespace taut::cli {
namespace {

struct ResumeOptions {
  std::uint64_t job = 0;
  bool follow = false;
  std::optional<std::int32_t> max_iter;
  CoordinatorOption coordinator;
};

Result<void> resume(const ResumeOptions& options) {
  TAUT_TRY(auto client, options.coordinator.connect());
  TAUT_TRY(const pb::JobStatus job, client.job(JobId(options.job)));
  if (!has_ended(job.state())) {
    return invalid(fmt::format("job {} is {}; tautline stop {} saves and ends it", options.job,
                               state_word(job.state()), options.job));
  }
  if (job.restarted_as() != 0) {
    return invalid(fmt::format("job {} is continued by job {}", options.job, job.restarted_as()));
  }
  if (job.diverged()) {
    const std::string advice =
        job.advice().empty() ? "submit it with a lower base_lr" : job.advice();
    return invalid(fmt::format("job {} has diverged, and would again; {}", options.job, advice));
  }
  if (job.checkpoints().empty() && !job.has_resume()) {
    return invalid(fmt::format("job {} has no checkpoint; submit it again", options.job));
  }
  const std::string from =
      job.checkpoints().empty() ? job.resume().folder() : job.checkpoints().rbegin()->folder();
  const std::int64_t clock =
      job.checkpoints().empty() ? job.resume().clock() : job.checkpoints().rbegin()->clock();
  pb::Job definition = job.definition();
  if (options.max_iter) definition.mutable_solver_param()->set_max_iter(*options.max_iter);
  if (Clock(clock) >= end_clock(definition)) {
    return invalid(
        fmt::format("job {} has trained all of its {} iterations; --max-iter N trains "
                    "further",
                    options.job, definition.solver_param().max_iter()));
  }
  definition.set_resume(from);
  TAUT_TRY(const pb::SubmitReply reply, client.submit(definition, run_origin()));
  fmt::print("job {} continues job {} from clock {}: {}\n", reply.job(), options.job, clock, from);
  if (!reply.message().empty()) fmt::print("{}\n", reply.message());
  std::fflush(stdout);
  if (!options.follow) return ok();
  return follow_job(client, JobId(reply.job()), words_of(definition),
                    [](const pb::JobStatus& ended) {
                      return fmt::format("tautline resume {} --follow", ended.job());
                    });
}

}  // namespace

void add_resume(Command& command, int& status) {
  auto options = std::make_shared<ResumeOptions>();
  command.whole_number("JOB", options->job, "Number of a job that has ended", 1).required();
  command.whole_number("--max-iter", options->max_iter, "Iterations of each worker, in all", 1);
  command.flag("--follow", options->follow, "Shows its progress until it ends");
  options->coordinator.add_to(command);
  command.on_run([options, &status] {
    if (const auto done = resume(*options); !done) status = fail("resume", done.error().message);
  });
}

}  // namespace taut::cli
