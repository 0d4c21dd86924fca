// Decisions about the queue, carried out: jobs start, shrink, grow and make room.
#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "proto/config/experiment_check.hpp"
#include "proto/state_word.hpp"
#include "server/coordinator/coordinator.hpp"
#include "server/coordinator/queue/job_demand.hpp"

namespace taut {

void Coordinator::start_external_jobs() {
  for (auto& [id, job] : jobs_) {
    const pb::StoredJob& stored = job.stored();
    const bool waits = stored.state() == pb::SUBMITTED && !stored.held() && job.takes() != JobId();
    if (!waits || !waits_for(job, registry_).empty()) continue;
    std::vector<const Participant*> joined = idle_workers(job.takes());
    joined.resize(std::min<std::size_t>(joined.size(), stored.definition().workers()));
    start(job, joined);
  }
}

void Coordinator::schedule() {
  if (awaits_known() || gathers()) return;
  start_external_jobs();
  const Queue queue = this->queue();
  const SchedulingDecision& decision = queue.decision;
  for (const SchedulingDecision::Start& one : decision.starts) {
    std::vector<const Participant*> chosen;
    for (const std::size_t place : one.places) chosen.push_back(queue.workers[place]);
    start(jobs_.at(one.job), chosen);
  }
  for (const ScheduledJob& job : queue.state.running) {
    limit_workers(jobs_.at(job.job), decision, queue.workers);
  }
  for (const SchedulingDecision::Resize& one : decision.growths) renew_former(jobs_.at(one.job));
  for (const JobId job : decision.preemptions) preempt(jobs_.at(job));
}

/// Applies the policy's decision to a running job that may have fewer or more workers. Without one,
/// the job keeps the workers that it has, and replaces those that it has lost.
void Coordinator::limit_workers(JobRecord& job, const SchedulingDecision& decision,
                                const std::vector<const Participant*>& workers) {
  const pb::StoredJob& stored = job.stored();
  if (stored.worker_limit() == 0 || stored.closing() || stored.stops_when_saved()) return;
  const JobId id(stored.job());
  std::uint32_t limit = std::max(job.staying() + job.lost_slots(), 1U);
  const auto shrink = std::ranges::find(decision.shrinks, id, &SchedulingDecision::Resize::job);
  const auto growth = std::ranges::find(decision.growths, id, &SchedulingDecision::Resize::job);
  if (growth != decision.growths.end()) limit = std::max(limit, growth->workers);
  if (shrink != decision.shrinks.end()) {
    limit = shrink->workers;
    std::string names;
    for (const std::size_t place : shrink->leaving) {
      const int member = job.find_member(workers[place]->incarnation);
      if (member < 0) continue;
      job.change().mutable_members(member)->set_leaves(true);
      job.revise_worker(member);
      names += fmt::format("{}\"{}\"", names.empty() ? "" : ", ", workers[place]->name);
    }
    out_.notes.add(id, fmt::format("shrinks to {} worker{} for a job of higher priority: {} "
                                   "leave{} it",
                                   limit, limit == 1 ? "" : "s", names,
                                   shrink->leaving.size() == 1 ? "s" : ""));
  }
  if (limit != stored.worker_limit()) job.change().set_worker_limit(limit);
}

/// A worker joins a job only once in each of its lives. Idle workers that left a job when it
/// shrank, and that it may have again, are declared lost, so that they rejoin with a new life.
void Coordinator::renew_former(JobRecord& job) {
  const pb::StoredJob& stored = job.stored();
  const std::uint32_t limit = job.worker_limit();
  std::uint32_t missing = limit - std::min(limit, job.staying());
  for (const Participant* worker : fitting_workers(job)) {
    if (missing == 0) return;
    const int member = job.find_member(worker->incarnation);
    if (member < 0) {
      --missing;
      continue;
    }
    const pb::StoredMember& former = stored.members(member);
    if (!former.leaves() || !former.progress().left()) continue;
    --missing;
    const PeerId peer = *worker->peer;
    registry_.lose(*registry_.hear(peer, now_),
                   fmt::format("job {} has a place for {} again", stored.job(), worker->title()));
    out_.notes.add(JobId(stored.job()),
                   fmt::format("worker \"{}\" may join it again", former.member().name()));
  }
}

void Coordinator::start(JobRecord& job, const std::vector<const Participant*>& workers) {
  start_job(job, registry_, workers, {options_.replication_interval, options_.replication_copies},
            now_, out_.notes);
  if (job.stored().replication_interval() > 0 && options_.logs_updates) {
    job.change().set_logs_updates(true);
  }
  order_first_checkpoint(job, out_.notes);
}

bool Coordinator::save_and_stop(JobRecord& job, const std::string& then) {
  const auto order = order_last_checkpoint(job, out_.tasks, out_.notes);
  out_.notes.add_named(JobId(job.stored().job()),
                       order ? fmt::format("{}, then {}", order.value(), then)
                             : fmt::format("{}; {} without it", order.error().message, then));
  return order.has_value();
}

void Coordinator::preempt(JobRecord& job) {
  job.change().set_requeued(true);
  job.change().set_message("makes room for a job of higher priority");
  const auto order = order_last_checkpoint(job, out_.tasks, out_.notes);
  if (!order) return;  // keep_place() follows, and notes the reason
  out_.notes.add_named(
      JobId(job.stored().job()),
      fmt::format("{}, then it makes room for a job of higher priority", order.value()));
}

void Coordinator::keep_place(JobRecord& job) {
  constexpr Duration kAskedAgainAfter = std::chrono::seconds(60);
  pb::StoredJob& stored = job.change();
  const std::string failure = stored.checkpoint_failure().empty()
                                  ? "its checkpoint was not written in time"
                                  : stored.checkpoint_failure();
  stored.set_requeued(false);
  stored.set_stops_when_saved(false);
  stored.set_checkpoint_wanted(false);
  // Its workers may begin clocks again.
  stored.set_saved_before(0);
  job.revise_workers();
  stored.set_message(fmt::format(
      "makes no room for a job of higher priority, as it cannot be saved: {}", failure));
  job.saving_since.reset();
  job.keeps_until = now_ + kAskedAgainAfter;
  out_.notes.add(JobId(stored.job()), stored.message());
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
  out_.notes.add_named(JobId(request.job()), reply.message());
}

}  // namespace taut
