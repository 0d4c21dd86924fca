#include "cli/submitted_job.hpp"
#include "cli/run_origin.hpp"

#include <thread>

#include "cli/views/job_text.hpp"

namespace taut::cli {
namespace {

constexpr auto kBetweenLooks = std::chrono::milliseconds(20);
constexpr Duration kBetweenShows = std::chrono::milliseconds(200);
constexpr Duration kStatusWait{500'000};
constexpr Duration kSilenceLimit{30'000'000};
constexpr Duration kSubmitWait{10'000'000};

}  // namespace

Result<pb::StatusReply> SubmittedJob::status() {
  const TimePoint until = steady_now() + kSilenceLimit;
  control_.set_deadline(kStatusWait);
  while (true) {
    auto status = job_ == JobId() ? control_.status() : control_.status(job_);
    if (status || status.error().code != ErrorCode::kTimeout || steady_now() > until) {
      return status;
    }
    TAUT_TRY(look_around_());
  }
}

Result<void> SubmittedJob::submit(const pb::Job& job) {
  control_.set_deadline(kSubmitWait);
  TAUT_TRY(const pb::SubmitReply reply, control_.submit(job, run_origin()));
  job_ = JobId(reply.job());
  return ok();
}

Result<pb::JobStatus> SubmittedJob::follow(const Show& show) {
  TimePoint next_show = steady_now();
  while (true) {
    TAUT_TRY(look_around_());
    if (steady_now() < next_show) continue;
    next_show = steady_now() + kBetweenShows;
    TAUT_TRY(pb::StatusReply reply, status());
    if (reply.jobs_size() != 1) return invalid("the coordinator's status does not hold the job");
    seen_ = reply.jobs(0);
    show(seen_);
    if (!has_ended(seen_.state())) continue;
    if (seen_.restarted_as() == 0) return seen_;
    job_ = JobId(seen_.restarted_as());
  }
}

void SubmittedJob::save(Duration limit, const std::function<bool()>& may_wait) {
  if (job_ == JobId() || has_ended(seen_.state())) return;
  control_.set_deadline(kStatusWait);
  const TimePoint until = steady_now() + limit;
  bool is_ordered = false;
  while (steady_now() < until && may_wait()) {
    if (!is_ordered) {
      const auto ordered = control_.stop(job_, false);
      // A coordinator that is busy is asked again.
      if (!ordered && ordered.error().code != ErrorCode::kTimeout) return;
      is_ordered = ordered.has_value();
    }
    const auto reply = control_.status(job_);
    if (reply && reply.value().jobs_size() == 1) {
      seen_ = reply.value().jobs(0);
      if (has_ended(seen_.state())) return;
    }
    std::this_thread::sleep_for(kBetweenLooks);
  }
}

void SubmittedJob::discard() {
  if (job_ == JobId() || has_ended(seen_.state())) return;
  control_.set_deadline(kStatusWait);
  [[maybe_unused]] const auto stopped = control_.stop(job_, true);
}

}  // namespace taut::cli
