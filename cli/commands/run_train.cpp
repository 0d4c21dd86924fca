#include <fmt/format.h>
#include <algorithm>
#include <cstdio>
#include <memory>
#include <string>
#include <thread>
#include <utility>

#include "cli/checkpoint_paths.hpp"
#include "cli/commands/command.hpp"
#include "cli/commands/train.hpp"
#include "cli/control_client.hpp"
#include "cli/local_cluster.hpp"
#include "cli/run_folder.hpp"
#include "cli/views/draw.hpp"
#include "cli/views/job_text.hpp"
#include "cli/views/progress_display.hpp"
#include "cli/views/run_summary.hpp"
#include "common/files/file.hpp"
#include "common/stop_signal.hpp"
#include "proto/config/text.hpp"
#include "proto/state_word.hpp"
#include "worker/data/text_source.hpp"
#include "worker/model/job_data.hpp"

namespace taut::cli {
namespace {

constexpr auto kBetweenLooks = std::chrono::milliseconds(20);
constexpr Duration kBetweenDraws = std::chrono::milliseconds(200);
constexpr Duration kJoinWithin = std::chrono::seconds(60);
// Together with what ends the job, less than the 5 s that a user is promised.
constexpr Duration kGrace = std::chrono::milliseconds(3500);
constexpr double kControlWait_s = 10;
constexpr Duration kStatusWait{500'000};
constexpr Duration kSilenceLimit{30'000'000};
constexpr Duration kSubmitWait{10'000'000};

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

  [[nodiscard]] double first_iteration_s() const { return first_iteration_s_; }

 private:
  [[nodiscard]] Result<void> start_cluster();
  [[nodiscard]] Result<void> await_workers();
  [[nodiscard]] Result<pb::StatusReply> ask_status();
  [[nodiscard]] Result<pb::JobStatus> follow();
  /// Sleeps briefly. Errors: a process has ended, or the user interrupted.
  [[nodiscard]] Result<void> look_around();
  void note_first_iteration(const pb::JobStatus& status);

  const TrainOptions& options_;
  const pb::Job job_;
  const std::filesystem::path folder_;
  const TimePoint began_ = steady_now();
  std::unique_ptr<LocalCluster> cluster_;
  std::unique_ptr<ControlClient> control_;
  JobId job_id_;
  TimePoint submitted_;
  double first_iteration_s_ = 0;
};

Result<void> TrainRun::look_around() {
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
  TAUT_TRY(auto control, connect_control(cluster_->coordinator(), kControlWait_s));
  control_ = std::make_unique<ControlClient>(std::move(control));
  if (options_.json) return ok();
  fmt::print("coordinator {0} (tautline top --coordinator {0})\n", cluster_->coordinator());
  if (!cluster_->dashboard().empty()) fmt::print("dashboard http://{}/\n", cluster_->dashboard());
  std::fflush(stdout);
  return ok();
}

/// A coordinator that does not answer may have died with its server: the children are looked at
/// between short waits.
Result<pb::StatusReply> TrainRun::ask_status() {
  const TimePoint until = steady_now() + kSilenceLimit;
  control_->set_deadline(kStatusWait);
  while (true) {
    auto status = job_id_ == JobId() ? control_->status() : control_->status(job_id_);
    if (status || status.error().code != ErrorCode::kTimeout || steady_now() > until) {
      return status;
    }
    TAUT_TRY(look_around());
  }
}

Result<void> TrainRun::await_workers() {
  const TimePoint deadline = steady_now() + kJoinWithin;
  while (true) {
    TAUT_TRY(const pb::StatusReply status, ask_status());
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
    TAUT_TRY(look_around());
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
  TimePoint next_draw = steady_now();
  while (true) {
    TAUT_TRY(look_around());
    if (steady_now() < next_draw) continue;
    next_draw = steady_now() + kBetweenDraws;
    TAUT_TRY(pb::StatusReply status, ask_status());
    if (status.jobs_size() != 1) return invalid("the coordinator's status does not hold the job");
    pb::JobStatus& job = *status.mutable_jobs(0);
    if (!options_.json) display.show(job);
    if (has_ended(job.state())) {
      note_first_iteration(job);
      return std::move(job);
    }
  }
}

Result<pb::JobStatus> TrainRun::train() {
  TAUT_TRY(start_cluster());
  TAUT_TRY(await_workers());
  submitted_ = steady_now();
  control_->set_deadline(kSubmitWait);
  TAUT_TRY(const pb::SubmitReply reply, control_->submit(job_));
  job_id_ = JobId(reply.job());
  return follow();
}

void TrainRun::end() {
  if (!cluster_) return;
  if (stop_signal() != 0 && job_id_ != JobId()) {
    // The workers leave the job in order if that is quick.
    control_->set_deadline(std::chrono::milliseconds(500));
    [[maybe_unused]] const auto stopped = control_->stop(job_id_);
  }
  for (const std::string& name : cluster_->stop(kGrace)) {
    fmt::print(stderr, "tautline train: {} did not end within {:g} s and was killed\n", name,
               seconds(kGrace));
  }
}

/// A file of the run that cannot be written: most often the disk is full.
int fail_to_write(const Error& error) {
  return fail("train", error.message + "; make room there, or name another folder with --output");
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

/// Writes what the numbers of the job's texts mean next to the run's results.
Result<void> write_vocabularies(const pb::Job& job, const std::filesystem::path& folder) {
  TAUT_TRY(const auto layers, model::data_of(job, pb::TRAIN));
  for (const auto& [layer, place] : layers) {
    if (layer.data_param().backend() != pb::DataParameter::TEXT) continue;
    TAUT_TRY(const auto vocabulary, data::text_vocabulary(layer.text_param(), place.folder));
    TAUT_TRY(write_file_atomically(folder / fmt::format("vocabulary_{}.txt", layer.name()),
                                   vocabulary.to_file()));
  }
  return ok();
}

}  // namespace

int run_train(const TrainOptions& options) {
  const TimePoint began = steady_now();
  watch_stop_signals();
  auto job = training_job(options);
  if (!job) return fail("train", job.error().message);
  if (options.device_indices.size() > job.value().workers()) {
    throw UsageError(fmt::format("--device-index names the devices of {} workers, the job has {}",
                                 options.device_indices.size(), job.value().workers()));
  }
  auto folder = make_run_folder(options.output, job.value().name());
  if (!folder) return fail("train", folder.error().message);
  const auto written =
      write_file_atomically(folder.value() / "job.textproto", to_text(job.value()));
  if (!written) return fail_to_write(written.error());
  if (const auto vocabularies = write_vocabularies(job.value(), folder.value()); !vocabularies) {
    return fail("train", vocabularies.error().message);
  }
  if (!options.json) {
    fmt::print("{}: {}, {}, run folder {}\n", job.value().name(),
               counted(options.servers, "server"), counted(job.value().workers(), "worker"),
               folder.value().string());
    std::fflush(stdout);
  }
  // Not in the file above, which does not depend on the run's folder.
  settle_checkpoint_paths(folder.value() / "checkpoints", job.value());
  TrainRun run(options, job.value(), folder.value());
  const auto last = run.train();
  const double wall_s = seconds(steady_now() - began);
  run.end();
  if (stop_signal() != 0) {
    fail("train",
         fmt::format("ended by signal {}; logs in {}", stop_signal(), folder.value().string()));
    return 128 + stop_signal();
  }
  if (!last) return fail("train", last.error().message);

  const RunSummary summary{.job = last.value(),
                           .words = words_of(job.value()),
                           .servers = options.servers,
                           .shards = options.shards,
                           .wall_s = wall_s,
                           .first_iteration_s = run.first_iteration_s(),
                           .folder = folder.value().string()};
  print_summary(summary, options.json);
  const auto kept = write_summary(summary);
  if (!kept) return fail_to_write(kept.error());
  if (last.value().state() == pb::DONE) return kFine;
  return fail("train",
              fmt::format("job {}: {}", state_word(last.value().state()), last.value().message()));
}

}  // namespace taut::cli
