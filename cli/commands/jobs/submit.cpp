#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <filesystem>
#include <memory>
#include <string>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

#include "cli/checkpoint_paths.hpp"
#include "cli/commands/job_arguments.hpp"
#include "cli/commands/jobs/follow_job.hpp"
#include "cli/commands/shared_options.hpp"
#include "cli/converted_weights.hpp"
#include "cli/job_records.hpp"
#include "cli/run_origin.hpp"
#include "common/time.hpp"
#include "proto/session/control_client.hpp"
#include "worker/model/job/job.hpp"
#include "worker/model/layer_place.hpp"
#include "worker/model/weights.hpp"

namespace taut::cli {
namespace {

struct SubmitOptions {
  std::string job_file;
  bool follow = false;
  std::uint32_t await_servers = 0;
  JobOptions job;
  CoordinatorOption coordinator;
};

/// Reads the weights that are on this machine, and prints what matches the net.
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
  const model::GraphOptions trained = known.records.graph_options(pb::TRAIN);
  TAUT_TRY(const auto converted, convert_state_dicts(job, trained));
  for (const std::string& line : converted) fmt::print("weights: {}\n", line);
  TAUT_TRY(const std::string weights, model::match_job_weights(job, trained));
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

template <class Statuses>
std::uint32_t living(const Statuses& processes) {
  return static_cast<std::uint32_t>(std::ranges::count_if(
      processes, [](const auto& one) { return one.state() != pb::PROCESS_LOST; }));
}

/// Waits until `await_servers` servers and the job's workers have joined: a job is spread over the
/// servers that exist when it starts. External members join once the job exists.
Result<void> await_members(const SubmitOptions& options, const pb::Job& job,
                           ControlClient& client) {
  constexpr auto kBetweenLooks = std::chrono::milliseconds(200);
  const std::uint32_t workers = job.external_members() ? 0 : std::max(1U, job.workers());
  const TimePoint until = steady_now() + from_seconds(options.coordinator.wait_s);
  while (true) {
    TAUT_TRY(const pb::StatusReply status, client.status());
    const std::uint32_t here = living(status.servers());
    const std::uint32_t working = living(status.workers());
    if (here >= options.await_servers && working >= workers) return ok();
    if (steady_now() > until) {
      return make_error(
          ErrorCode::kTimeout,
          fmt::format("after {:g} s {} of {} servers and {} of {} workers have "
                      "joined; see their logs, or wait longer with --wait",
                      options.coordinator.wait_s, here, options.await_servers, working, workers));
    }
    std::this_thread::sleep_for(kBetweenLooks);
  }
}

Result<void> submit(const SubmitOptions& options) {
  TAUT_TRY(pb::Job job, model::load_job(options.job_file));
  const pb::Job given = job;
  put_over(options.job, job);
  settle_checkpoint_paths("checkpoints", job);
  settle_last_checkpoint(job);
  TAUT_TRY(warn(options, given, job));
  TAUT_TRY(settle_weights(options, job));
  TAUT_TRY(auto client, options.coordinator.connect());
  if (options.await_servers > 0) {
    TAUT_TRY(await_members(options, job, client));
  }
  TAUT_TRY(const pb::SubmitReply reply, client.submit(job, run_origin()));
  fmt::print(
      "job {0} submitted{1}\n", reply.job(),
      options.follow ? "" : fmt::format("; tautline status {} --watch follows it", reply.job()));
  if (!reply.message().empty()) fmt::print("{}\n", reply.message());
  std::fflush(stdout);
  if (!options.follow) return ok();
  return follow_job(client, JobId(reply.job()), words_of(job), [](const pb::JobStatus& ended) {
    return resume_line(ended.checkpoints().rbegin()->folder());
  });
}

}  // namespace

void add_submit(Command& command, int& status) {
  auto options = std::make_shared<SubmitOptions>();
  command.text("JOB", options->job_file, "Job or solver file; the files it names are sent with it")
      .required()
      .value("FILE");
  // Paths are those of the servers and the workers.
  add_job_options(command, std::shared_ptr<JobOptions>(options, &options->job));
  command.flag("--follow", options->follow, "Shows its progress until it ends");
  command.whole_number("--await-servers", options->await_servers,
                       "Waits, as long as --wait says, until this many servers and the job's "
                       "workers have joined (for a job of programs only the servers)",
                       1, kMaxProcesses);
  options->coordinator.add_to(command);
  command.on_run([options, &status] {
    check_job_options(options->job);
    const Result<void> done = submit(*options);
    if (done) return;
    status = fail("submit", model::with_layer_place(options->job_file, done.error().message));
  });
}

}  // namespace taut::cli
