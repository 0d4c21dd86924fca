#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "proto/config/experiment_check.hpp"
#include "proto/state_word.hpp"
#include "server/coordinator/coordinator.hpp"
#include "server/coordinator/job_status.hpp"

namespace taut {
namespace {

/// Until it ends: by its pace, or by what its definition expects.
std::optional<double> remaining_s(const JobRecord& job, const Registry& registry, TimePoint now) {
  if (job.stored().state() == pb::RUNNING) {
    const double left = job_status(job, registry, "", now).left_s();
    if (left > 0) return left;
  }
  const double expected = job.stored().definition().expected_s();
  if (expected <= 0) return std::nullopt;
  return std::max(0.0, expected - job.running_s(now));
}

bool goes_before(const pb::StoredJob& a, const pb::StoredJob& b) {
  return a.priority() != b.priority() ? a.priority() > b.priority() : a.job() < b.job();
}

}  // namespace

std::set<Incarnation> Coordinator::busy_workers() const {
  std::set<Incarnation> busy;
  for (const auto& [id, job] : jobs_) {
    if (!job.is_active()) continue;
    for (const pb::StoredMember& member : job.stored().members()) {
      if (job.works(member)) busy.insert(Incarnation(member.member().incarnation()));
    }
  }
  return busy;
}

std::vector<const Participant*> Coordinator::idle_workers(JobId job) const {
  const std::set<Incarnation> busy = busy_workers();
  std::vector<const Participant*> workers = registry_.available_for(job);
  std::erase_if(workers, [&](const Participant* one) { return busy.contains(one->incarnation); });
  return workers;
}

std::uint32_t Coordinator::free_workers() const {
  const std::vector<const Participant*> idle = idle_workers();
  std::size_t claimed = 0;
  for (const auto& [id, job] : jobs_) {
    const pb::StoredJob& stored = job.stored();
    if (stored.state() != pb::RUNNING || stored.closing() || job.takes() != JobId()) continue;
    const auto fitting = std::ranges::count_if(idle, [&stored](const Participant* worker) {
      return std::ranges::count(stored.quarantined(), worker->name) == 0;
    });
    claimed += std::min<std::size_t>(job.lost_slots(), static_cast<std::size_t>(fitting));
  }
  return static_cast<std::uint32_t>(idle.size() - std::min(idle.size(), claimed));
}

bool Coordinator::may_know_workers(const JobRecord& job) const {
  // "Every worker that has joined" is unknown until all had the time to reconnect.
  const bool is_recovered = job.stored().job() < first_new_job_;
  return !is_recovered || job.stored().definition().workers() > 0 ||
         now_ - recovered_at_ > options_.heartbeat_limit;
}

std::string Coordinator::waiting_message(const JobRecord& job, std::uint32_t free) const {
  const pb::StoredJob& stored = job.stored();
  if (stored.held()) return fmt::format("is held; tautline release {} lets it start", stored.job());
  if (!may_know_workers(job)) {
    return "waits for the workers to reconnect after the coordinator's restart";
  }
  if (std::string missing = waits_for(job, registry_); !missing.empty()) return missing;
  if (job.takes() != JobId()) return "";
  if (free < worker_demand(job, registry_).min) {
    std::string running;
    for (const auto& [id, other] : jobs_) {
      if (!other.is_active()) continue;
      running += fmt::format("{}{}", running.empty() ? "" : ", ", id.value());
    }
    const bool is_one = running.find(',') == std::string::npos;
    return is_one ? fmt::format("waits for job {} to end", running)
                  : fmt::format("waits for workers of jobs {}", running);
  }
  for (const auto& [id, other] : jobs_) {
    const pb::StoredJob& ahead = other.stored();
    const bool waits = ahead.state() == pb::SUBMITTED && !ahead.held() && other.takes() == JobId();
    if (!waits || !goes_before(ahead, stored) || !waits_for(other, registry_).empty()) continue;
    return fmt::format("waits for job {}, which goes before it", ahead.job());
  }
  return "";
}

SchedulingState Coordinator::scheduling_state() const {
  SchedulingState state;
  for (const auto& [id, job] : jobs_) {
    const pb::StoredJob& stored = job.stored();
    const bool waits = stored.state() == pb::SUBMITTED && !stored.held();
    if (!waits || !may_know_workers(job) || !waits_for(job, registry_).empty()) continue;
    if (job.takes() != JobId()) continue;
    const WorkerDemand demand = worker_demand(job, registry_);
    state.waiting.push_back({.job = id,
                             .priority = stored.priority(),
                             .min_workers = demand.min,
                             .max_workers = demand.max,
                             .service_s = stored.service_s(),
                             .remaining_s = remaining_s(job, registry_, now_)});
  }
  if (state.waiting.empty()) return state;
  for (const auto& [id, job] : jobs_) {
    const pb::StoredJob& stored = job.stored();
    if (!job.is_active() || job.takes() != JobId()) continue;
    state.running.push_back({.job = id,
                             .priority = stored.priority(),
                             .workers = job.working(),
                             .service_s = stored.service_s(),
                             .remaining_s = remaining_s(job, registry_, now_),
                             .ends = stored.closing() || stored.stops_when_saved()});
  }
  state.idle_workers = free_workers();
  return state;
}

void Coordinator::start_external_jobs() {
  for (auto& [id, job] : jobs_) {
    const pb::StoredJob& stored = job.stored();
    const bool waits = stored.state() == pb::SUBMITTED && !stored.held() && job.takes() != JobId();
    if (!waits || !waits_for(job, registry_).empty()) continue;
    const std::size_t joined = registry_.available_for(job.takes()).size();
    start(job, std::min(static_cast<std::uint32_t>(joined), stored.definition().workers()));
  }
}

void Coordinator::schedule() {
  start_external_jobs();
  const SchedulingState state = scheduling_state();
  if (state.waiting.empty()) return;
  const SchedulingDecision decision = policy_->decide(state, options_.scheduling.preemption());
  for (const SchedulingDecision::Start& one : decision.starts) {
    start(jobs_.at(one.job), one.workers);
  }
  for (const JobId job : decision.preemptions) preempt(jobs_.at(job));
}

void Coordinator::start(JobRecord& job, std::uint32_t workers) {
  const std::vector<const Participant*> idle = idle_workers(job.takes());
  std::vector<IdleWorker> places;
  places.reserve(idle.size());
  for (const Participant* worker : idle) places.push_back({worker->name, worker->host});
  std::vector<const Participant*> chosen;
  for (const std::size_t i : choose_workers(places, workers)) chosen.push_back(idle[i]);
  start_job(job, registry_, chosen, options_.replication_interval, now_, out_.notes);
  order_first_checkpoint(job, out_.notes);
}

bool Coordinator::save_and_stop(JobRecord& job, const std::string& then) {
  const auto order = order_checkpoint_now(job, out_.tasks, out_.notes);
  job.change().set_stops_when_saved(true);
  // Whichever is in progress; if none is, the last one is written.
  job.change().set_checkpoint_wanted(job.stored().has_checkpoint());
  out_.notes.push_back(order ? fmt::format("{}, then {}", order.value(), then)
                             : fmt::format("{}; {} without it", order.error().message, then));
  return order.has_value();
}

void Coordinator::preempt(JobRecord& job) {
  job.change().set_requeued(true);
  job.change().set_message("makes room for a job of higher priority");
  (void)save_and_stop(job, "it makes room for a job of higher priority");
}

void Coordinator::on_change_queue(const pb::ChangeQueue& request, pb::CommandReply& reply) {
  JobRecord* job = find_for_command(request.job(), *reply.mutable_error());
  if (job == nullptr) return;
  const bool waits = job->stored().state() == pb::SUBMITTED;
  if (request.has_held() && !waits) {
    reply.set_error(fmt::format(
        "job {0} is {1}: only a job that waits can be held or released; tautline stop {0} saves it",
        request.job(), state_word(job->stored().state())));
    return;
  }
  const std::int32_t priority = request.priority();
  if (priority < -kMaxPriority || priority > kMaxPriority) {
    reply.set_error(fmt::format("priority must be from {} to {}, is {}", -kMaxPriority,
                                kMaxPriority, priority));
    return;
  }
  std::string done;
  if (request.has_held()) {
    job->change().set_held(request.held());
    schedules_ = true;
    done = request.held() ? "is held" : "is released";
  }
  if (request.has_priority()) {
    done += fmt::format("{}has priority {} instead of {}", done.empty() ? "" : ", ", priority,
                        job->stored().priority());
    job->change().set_priority(priority);
    schedules_ = true;
  }
  reply.set_job(request.job());
  reply.set_message(fmt::format("job {} {}", request.job(), done));
  out_.notes.push_back(reply.message());
}

}  // namespace taut
