#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <memory>
#include <string>
#include <thread>
#include <utility>

#include "cli/checkpoint_paths.hpp"
#include "cli/commands/job_arguments.hpp"
#include "cli/commands/shared_options.hpp"
#include "cli/commands/training/run_files.hpp"
#include "cli/commands/training/train.hpp"
#include "cli/local_cluster.hpp"
#include "cli/run_folder.hpp"
#include "cli/run_origin.hpp"
#include "cli/submitted_job.hpp"
#include "cli/views/draw.hpp"
#include "cli/views/job_text.hpp"
#include "cli/views/progress_display.hpp"
#include "cli/views/summary_view.hpp"
#include "common/files/file.hpp"
#include "common/system/stop_signal.hpp"
#include "proto/config/text.hpp"
#include "proto/formats/checkpoint_reader.hpp"
#include "proto/state_word.hpp"

namespace taut::cli {
namespace {

constexpr auto kBetweenLooks = std::chrono::milliseconds(20);
constexpr Duration kJoinWithin = std::chrono::seconds(60);
// Together with what ends the job, less than the 5 s that a user is promised.
constexpr Duration kGrace = std::chrono::milliseconds(3500);
constexpr double kControlWait_s = 10;
// As long as the coordinator waits for the checkpoint, and for the workers to end.
constexpr Duration kSaveWithin = std::chrono::seconds(70);

Error stopped_by_user() {
  return make_error(ErrorCode::kClosed, "interrupted");
}

/// One run from its first process to its summary.
class TrainRun {
 public:
  TrainRun(const TrainOptions& options, pb::Job job, std::filesystem::path folder)
      : options_(options), job_(std::move(job)), folder_(std::move(folder)) {}

  /// The job's last status. Errors: a process ended, the job failed to start, interrupted.
  [[nodiscard]] Result<pb::JobStatus> train();
  /// Ends every process of the run.
  void end();
  /// The newest checkpoint that this run has written; empty if none.
  [[nodiscard]] std::string newest_checkpoint() const;
  /// The job failed by diverging: restarting it from a checkpoint would end in the same way.
  [[nodiscard]] bool diverged() const;

  /// The newest status of the job.
  [[nodiscard]] pb::JobStatus seen() const {
    return followed_ ? followed_->seen() : pb::JobStatus();
  }
  [[nodiscard]] double first_iteration_s() const { return first_iteration_s_; }
  /// How processes ended that were restarted.
  [[nodiscard]] std::vector<std::string> replaced() const {
    return cluster_ ? cluster_->replaced() : std::vector<std::string>();
  }

 private:
  [[nodiscard]] Result<void> start_cluster();
  [[nodiscard]] Result<void> await_workers();
  [[nodiscard]] Result<pb::JobStatus> follow();
  /// Sleeps briefly. Errors: a process has ended, or the user interrupted.
  [[nodiscard]] Result<void> check_daemons();
  void note_first_iteration(const pb::JobStatus& status);

  const TrainOptions& options_;
  const pb::Job job_;
  const std::filesystem::path folder_;
  const TimePoint began_ = steady_now();
  std::unique_ptr<LocalCluster> cluster_;
  std::unique_ptr<SubmittedJob> followed_;
  TimePoint submitted_;
  double first_iteration_s_ = 0;
};

Result<void> TrainRun::check_daemons() {
  std::this_thread::sleep_for(kBetweenLooks);
  if (stop_signal() != 0) return stopped_by_user();
  return cluster_->check();
}

Result<void> TrainRun::start_cluster() {
  LocalClusterOptions cluster;
  cluster.servers = options_.servers;
  cluster.shards = options_.shards;
  cluster.workers = job_.workers();
  cluster.device = options_.device;
  cluster.threads = options_.threads;
  cluster.device_memory_budget = options_.device_memory_budget;
  cluster.overlap = options_.overlap;
  cluster.pins = options_.pins;
  cluster.device_indices = options_.device_indices;
  cluster.records = options_.records;
  cluster.dashboard = options_.dashboard;
  cluster.folder = folder_;
  TAUT_TRY(auto started, LocalCluster::start(cluster));
  cluster_ = std::make_unique<LocalCluster>(std::move(started));
  TAUT_TRY(const Security security, cluster_->user_security());
  TAUT_TRY(auto control, connect_control(cluster_->coordinator(), kControlWait_s, security));
  followed_ =
      std::make_unique<SubmittedJob>(std::move(control), [this] { return check_daemons(); });
  if (options_.json) return ok();
  fmt::print("coordinator {0} (tautline top --coordinator {0})\n", cluster_->coordinator());
  if (!cluster_->dashboard().empty()) {
    TAUT_TRY(const std::string link, cluster_->dashboard_link());
    fmt::print("dashboard {}\n", link);
  }
  std::fflush(stdout);
  return ok();
}

Result<void> TrainRun::await_workers() {
  const TimePoint deadline = steady_now() + kJoinWithin;
  while (true) {
    TAUT_TRY(const pb::StatusReply status, followed_->status());
    const auto workers = static_cast<std::uint32_t>(status.workers_size());
    const auto servers = static_cast<std::uint32_t>(status.servers_size());
    if (workers >= job_.workers() && servers >= options_.servers) return ok();
    if (steady_now() > deadline) {
      return make_error(ErrorCode::kTimeout,
                        fmt::format("after {:g} s {} of {} servers and {} of {} workers have "
                                    "joined; their logs are in {}",
                                    seconds(kJoinWithin), servers, options_.servers, workers,
                                    job_.workers(), folder_.string()));
    }
    TAUT_TRY(check_daemons());
  }
}

void TrainRun::note_first_iteration(const pb::JobStatus& status) {
  for (const pb::WorkerStatus& worker : status.workers()) {
    const double since_its_start = worker.progress().seconds_to_first_iteration();
    if (since_its_start <= 0) continue;
    const double at = seconds(submitted_ - began_) + since_its_start;
    first_iteration_s_ = first_iteration_s_ == 0 ? at : std::min(first_iteration_s_, at);
  }
}

Result<pb::JobStatus> TrainRun::follow() {
  ProgressDisplay display(words_of(job_));
  TAUT_TRY(auto ended, followed_->follow([&](const pb::JobStatus& job) {
    if (!options_.json) display.show(job);
  }));
  note_first_iteration(ended);
  return ended;
}

Result<pb::JobStatus> TrainRun::train() {
  TAUT_TRY(start_cluster());
  TAUT_TRY(await_workers());
  submitted_ = steady_now();
  TAUT_TRY(followed_->submit(job_));
  auto ended = follow();
  if (!ended && stop_signal() != 0 && !options_.discard) {
    fmt::print(stderr, "tautline train: saving before it ends; Ctrl-C again ends it at once\n");
    followed_->save(kSaveWithin,
                    [this] { return !stop_is_urgent() && cluster_->check().has_value(); });
  }
  return ended;
}

std::string TrainRun::newest_checkpoint() const {
  const pb::JobStatus job = seen();
  for (int i = job.checkpoints_size(); i-- > 0;) {
    const std::string& folder = job.checkpoints(i).folder();
    if (CheckpointReader::open(folder)) return folder;
  }
  return {};
}

bool TrainRun::diverged() const {
  return seen().diverged();
}

void TrainRun::end() {
  if (!cluster_) return;
  // The workers leave the job in order if that is quick.
  if (stop_signal() != 0 && followed_) followed_->discard();
  for (const std::string& name : cluster_->stop(kGrace)) {
    fmt::print(stderr, "tautline train: {} did not end within {:g} s and was killed\n", name,
               seconds(kGrace));
  }
}

void print_summary(const RunSummary& run, bool json) {
  if (json) {
    fmt::print("{}\n", summary_json(run, JsonLayout::kOneLine));
    return;
  }
  for (const std::string& line : summary_lines(run)) fmt::print("{}\n", line);
}

Result<void> write_summary(const RunSummary& run) {
  return write_file_atomically(std::filesystem::path(run.folder) / "summary.json",
                               summary_json(run));
}

Result<std::filesystem::path> prepare_folder(const TrainOptions& options, const pb::Job& job) {
  TAUT_TRY(const std::filesystem::path folder, make_run_folder({.requested = options.output,
                                                                .job_name = job.name(),
                                                                .force = options.force,
                                                                .keep = job.resume()}));
  Result<void> written = write_file_atomically(folder / "job.textproto", to_text(job));
  if (written) written = write_origin(job, "train", folder);
  if (!written) {
    Error error = written.error();
    error.message += "; make room there, or name another folder with --output";
    return error;
  }
  TAUT_TRY(write_vocabularies(job, folder));
  return folder;
}

/// One attempt.
struct Attempt {
  int status = kFailed;
  std::string error;       // why it failed; empty: it did not
  std::string checkpoint;  // the newest that it has written; empty: none
  std::string advice;      // how to continue from there
  bool may_restart = false;
  std::filesystem::path folder;
  std::vector<std::string> replaced;  // as TrainRun's
};

/// Prints the summary of a run and stores it in its folder.
/// Errors    io: the folder cannot be written
Result<void> summarize(const TrainOptions& options, const pb::Job& job, const TrainRun& run,
                       const pb::JobStatus& status, const Attempt& result, double wall_s) {
  const RunSummary summary{.job = status,
                           .words = words_of(job),
                           .servers = options.servers,
                           .shards = options.shards,
                           .wall_s = wall_s,
                           .first_iteration_s = run.first_iteration_s(),
                           .folder = result.folder.string(),
                           .advice = status.state() == pb::DONE ? std::string() : result.advice,
                           .replaced = run.replaced()};
  // A stopped run has a summary too, but its user is not waiting for it.
  if (result.error.empty()) print_summary(summary, options.json);
  return write_summary(summary);
}

/// The run's job as its processes get it.
pb::Job job_of_run(pb::Job job, const std::filesystem::path& folder) {
  // Not in job.textproto, which does not depend on the run's folder.
  settle_checkpoint_paths(folder / "checkpoints", job);
  settle_last_checkpoint(job);
  // Its processes end with a failed run, so only this one can start it again.
  job.clear_restart();
  return job;
}

Attempt attempt(const TrainOptions& options, const pb::Job& given) {
  const TimePoint began = steady_now();
  Attempt result;
  auto folder = prepare_folder(options, given);
  if (!folder) {
    result.error = folder.error().message;
    return result;
  }
  result.folder = folder.value();
  if (!options.json) {
    fmt::print("{}: {}, {}, run folder {}\n", given.name(), counted(options.servers, "server"),
               counted(given.workers(), "worker"), result.folder.string());
    std::fflush(stdout);
  }
  const pb::Job job = job_of_run(given, result.folder);
  TrainRun run(options, job, result.folder);
  const auto last = run.train();
  const double wall_s = seconds(steady_now() - began);
  result.checkpoint = run.newest_checkpoint();
  run.end();
  result.replaced = run.replaced();
  result.may_restart = stop_signal() == 0 && !run.diverged();
  if (!result.checkpoint.empty()) {
    result.advice =
        (run.diverged() ? "with a lower base_lr, continue from its last good checkpoint with: "
                        : "continue with: ") +
        resume_line(result.checkpoint);
  }
  // A signal while the processes end comes too late to interrupt the job.
  const bool is_done = last && last.value().state() == pb::DONE;
  if (stop_signal() != 0 && !is_done) {
    result.error =
        fmt::format("ended by signal {}; logs in {}", stop_signal(), result.folder.string());
    result.status = 128 + stop_signal();
  } else if (!last) {
    result.error = last.error().message;
  }
  if (!last && !has_ended(run.seen().state())) return result;
  const pb::JobStatus& status = last ? last.value() : run.seen();
  const auto kept = summarize(options, job, run, status, result, wall_s);
  if (!result.error.empty()) return result;
  if (!kept) {
    result.error = kept.error().message + "; make room there, or name another folder with --output";
  } else if (status.state() == pb::DONE) {
    result.status = kFine;
  } else {
    result.error = fmt::format("job {}: {}", state_word(status.state()), status.message());
  }
  return result;
}

/// The same run from a checkpoint, in its own folder.
TrainOptions continued(const TrainOptions& options, const std::filesystem::path& folder) {
  TrainOptions next = options;
  next.force = false;
  if (!options.output.empty()) next.output = free_path(folder).string();
  return next;
}

}  // namespace

int run_train(const TrainOptions& requested) {
  watch_stop_signals();
  TrainOptions options = requested;
  auto job = training_job(options);
  if (!job) return fail("train", job.error().message);
  if (job.value().workers() > kMaxProcesses) {
    return fail("train", fmt::format("workers: the job has {}, and on one machine train starts at "
                                     "most {}; give fewer with --workers, submit it to a cluster, "
                                     "or train it in the lab",
                                     job.value().workers(), kMaxProcesses));
  }
  if (options.device_indices.size() > job.value().workers()) {
    throw UsageError(fmt::format("--device-index names the devices of {} workers, the job has {}",
                                 options.device_indices.size(), job.value().workers()));
  }
  for (std::uint32_t left = job.value().restart();; --left) {
    const Attempt done = attempt(options, job.value());
    if (done.error.empty()) return done.status;
    std::string message = done.error;
    for (const std::string& ending : done.replaced) message += "\n  started again: " + ending;
    const bool restarts = left > 0 && done.may_restart && stop_signal() == 0;
    if (!restarts) {
      // After the lines of a log that may be part of the message.
      if (!done.advice.empty()) message += "\n  " + done.advice;
      fail("train", message);
      return done.status;
    }
    fail("train", message);
    if (!done.checkpoint.empty()) job.value().set_resume(done.checkpoint);
    fmt::print(stderr, "tautline train: starts again from {}; {} left\n",
               job.value().has_resume() ? job.value().resume() : "the beginning",
               counted(left - 1, "restart"));
    options = continued(options, done.folder);
  }
}

}  // namespace taut::cli
