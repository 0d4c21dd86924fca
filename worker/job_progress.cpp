#include "worker/job_progress.hpp"

#include <algorithm>
#include <limits>

#include "worker/training/divergence.hpp"

namespace taut::worker {
namespace {

void fill_evaluations(const ProgressReport& report, pb::Progress& progress) {
  for (const TestResult& test : report.tests) {
    pb::Evaluation& one = *progress.add_evaluations();
    one.set_clock(test.clock.value());
    // The field has no presence; NaN means absent, since an accuracy is never NaN.
    one.set_accuracy(test.accuracy.value_or(std::numeric_limits<double>::quiet_NaN()));
    one.set_loss(without_sign_of_nan(test.loss));
  }
}

}  // namespace

pb::Progress progress_of(const pb::WorkerJob& job, TimePoint begun, const ProgressBoard& board,
                         const RunEnd& end, RecentRate& rate, TimePoint now) {
  const ProgressReport report = board.read();
  pb::Progress progress;
  progress.set_job(job.job());
  progress.set_revision(job.revision());
  progress.set_incarnation(job.incarnation());
  progress.set_clock(std::max(report.clock.value(), job.start_clock()));
  progress.set_loss(without_sign_of_nan(report.loss));
  progress.set_images(report.images);
  if (report.first_iteration) {
    progress.set_images_per_second(rate.take(now, report.images));
    if (report.images > 0) {
      progress.set_trained_s(seconds(report.last_iteration - *report.first_iteration));
      progress.set_since_trained_s(seconds(now - report.last_iteration));
    }
  }
  progress.set_compute_s(seconds(report.compute - report.wait));
  progress.set_wait_s(seconds(board.waited(now)));
  for (const auto& [staleness, reads] : report.staleness) {
    pb::StalenessBin& bin = *progress.add_staleness();
    bin.set_staleness(staleness);
    bin.set_reads(reads);
  }
  progress.set_pushed_bytes(report.traffic.pushed);
  progress.set_read_bytes(report.traffic.read);
  progress.set_saved_bytes(report.traffic.saved);
  progress.set_read_saved_bytes(report.traffic.read_saved);
  progress.set_resent_requests(report.traffic.resent);
  if (const auto silent = board.load()->silent()) {
    progress.mutable_silent()->set_shard(silent->shard.value());
    progress.mutable_silent()->set_term(silent->term);
  }
  if (report.disagreement.from_mean) {
    progress.set_consensus_error(*report.disagreement.from_mean);
  }
  fill_evaluations(report, progress);
  if (report.first_iteration) {
    progress.set_seconds_to_first_iteration(seconds(*report.first_iteration - begun));
  }
  progress.set_finished(end.finished && !end.outcome.left);
  progress.set_left(end.outcome.left);
  progress.set_error(end.error);
  progress.set_diverged(report.diverged);
  progress.set_parameters_sha256(end.outcome.parameters_sha256);
  return progress;
}

}  // namespace taut::worker
