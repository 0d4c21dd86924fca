#include <fmt/format.h>

#include <algorithm>

#include "proto/state_word.hpp"
#include "server/coordinator/coordinator.hpp"
#include "server/coordinator/job_status.hpp"
#include "server/coordinator/placement/shard_placement.hpp"
#include "server/coordinator/placement/shard_status.hpp"
#include "server/coordinator/queue/job_demand.hpp"

namespace taut {
namespace {

constexpr std::size_t kMaxQueued = 1000;
constexpr std::size_t kMaxQueuedBytes = 48UL << 20U;  // of the jobs' definitions

// Members and tests of ended jobs in a status of all jobs: a client refuses a large message.
constexpr int kMaxEndedRows = 8192;

std::string unknown_job(std::uint64_t job) {
  return fmt::format("job {} does not exist; \"tautline status\" lists the jobs", job);
}

bool trains_nets(const Participant* worker) {
  return worker->job == JobId();
}

/// Whether workers push only at the ends of intervals, so that shards do not know clocks between.
bool averages(const pb::Job& definition) {
  const pb::Consistency& consistency = definition.consistency();
  return consistency.has_periodic_averaging() || consistency.has_elastic_averaging();
}

/// Why a job cannot be ended as finished; empty if it can.
std::string why_not_finished(const JobRecord& job, bool discard) {
  const pb::StoredJob& stored = job.stored();
  if (!stored.definition().external_members()) {
    return fmt::format(
        "job {0} trains a net, and is done at its last clock; \"tautline stop {0}\" saves it and "
        "ends it now",
        stored.job());
  }
  if (stored.state() == pb::SUBMITTED) {
    return fmt::format("job {0} has not started; \"tautline stop {0}\" removes it", stored.job());
  }
  if (stored.closing()) return fmt::format("job {} is being ended already", stored.job());
  return discard ? "a job that is finished is saved; discard is for one that is stopped" : "";
}

/// The oldest ended job that a status of all jobs shows in full: the newest ones are, as many as
/// fit, and at least one.
JobId first_in_full(const std::map<JobId, JobRecord>& jobs) {
  JobId first;
  int rows = 0;
  // NOLINTNEXTLINE(modernize-loop-convert): clang 14 does not compile views of this libstdc++
  for (auto job = jobs.rbegin(); job != jobs.rend(); ++job) {
    if (!job->second.has_ended()) continue;
    const pb::StoredJob& stored = job->second.stored();
    const int own = stored.members_size() + stored.evaluations_size();
    if (rows > 0 && rows + own > kMaxEndedRows) return first;
    first = job->first;
    rows += own;
  }
  return JobId();
}

}  // namespace

void Coordinator::on_submit(const pb::Submit& submit, pb::SubmitReply& reply) {
  for (const auto& [id, job] : jobs_) {
    if (submit.token() == 0 || job.stored().token() != submit.token()) continue;
    reply.set_job(id.value());
    const bool waits = job.stored().state() == pb::SUBMITTED;
    if (waits) reply.set_message(waiting_message(job, queue()));
    return;
  }
  const Result<Slack> slack = check_definition(submit.definition(), options_.max_workers);
  std::size_t queued = 0;
  std::size_t queued_bytes = submit.definition().ByteSizeLong();
  for (const auto& [id, job] : jobs_) {
    if (job.stored().state() != pb::SUBMITTED) continue;
    ++queued;
    queued_bytes += job.stored().definition().ByteSizeLong();
  }
  const bool lacks_server = registry_.live(pb::ROLE_SERVER).empty();
  const bool lacks_worker = !submit.definition().external_members() &&
                            std::ranges::none_of(registry_.live(pb::ROLE_WORKER), trains_nets);
  // After a restart the job waits for processes to reconnect.
  const bool may_return = awaits_any();
  if (!slack) {
    reply.set_error(slack.error().message);
  } else if (lacks_server && !may_return) {
    reply.set_error(
        "no server with shards has joined; start one with \"tautline-server --config FILE\"");
  } else if (lacks_worker && !may_return) {
    reply.set_error("no worker has joined; start one with \"tautline-worker --config FILE\"");
  } else if (queued >= kMaxQueued) {
    reply.set_error(
        fmt::format("{} jobs are waiting, which is the limit; stop one with "
                    "\"tautline stop JOB\"",
                    queued));
  } else if (queued > 0 && queued_bytes > kMaxQueuedBytes) {
    reply.set_error(
        fmt::format("the definitions of {} waiting jobs and this one have {} bytes; the limit is "
                    "{}: submit it when one of them has started, or stop one with "
                    "\"tautline stop JOB\"",
                    queued, queued_bytes, kMaxQueuedBytes));
  }
  if (!reply.error().empty()) return;

  const JobId id(next_job_++);
  if (lacks_server || lacks_worker) first_new_job_ = next_job_;
  JobRecord& job =
      jobs_
          .emplace(id, JobRecord(
                           new_job(id, submit.token(), submit.definition(), submit.user(),
                                   slack.value(), submit.has_resume() ? &submit.resume() : nullptr),
                           now_))
          .first->second;
  reply.set_job(id.value());
  reply.set_message(waiting_message(job, queue()));
  schedules_ = true;
  out_.notes.add(
      id, fmt::format("submitted{}{}", reply.message().empty() ? "" : ", ", reply.message()));
}

/// Adds a running job's clocks, from the first shard that has slices of it.
void Coordinator::add_clocks(const JobRecord& job, pb::JobStatus& status) const {
  if (job.stored().state() != pb::RUNNING || averages(job.stored().definition())) return;
  for (const pb::StoredServer& server : job.stored().servers()) {
    const auto loads = loads_.find(server.name());
    // A lost server's last report stays, but is out of date.
    const Participant* process =
        registry_.find_live(pb::ROLE_SERVER, server.name(), Incarnation(server.incarnation()));
    if (loads == loads_.end() || process == nullptr) continue;
    for (const pb::ShardLoad& load : loads->second) {
      if (load.clocks().job() != job.stored().job()) continue;
      *status.mutable_clocks() = load.clocks();
      status.set_clocks_age_s(seconds(now_ - process->last_heard));
      return;
    }
  }
}

void Coordinator::on_status(const pb::StatusRequest& request, pb::StatusReply& reply) {
  const Queue queue = this->queue();
  const JobId first_full = request.job() == 0 ? first_in_full(jobs_) : JobId();
  for (const auto& [id, job] : jobs_) {
    if (request.job() != 0 && request.job() != id.value()) continue;
    const bool waits = job.stored().state() == pb::SUBMITTED;
    pb::JobStatus& status = *reply.add_jobs();
    status = job_status(job, registry_, waits ? waiting_message(job, queue) : "", now_);
    if (job.has_ended() && id < first_full) shorten(status);
    const bool has_started = job.stored().slots() > 0 && !waits;
    const WorkerDemand demand = has_started
                                    ? WorkerDemand{min_running_workers(job), job.stored().slots()}
                                    : worker_demand(job, registry_, quota_of(job).workers);
    status.set_required_workers(demand.min);
    status.set_max_workers(demand.max);
    const auto place = queue.places.find(id);
    if (place != queue.places.end()) status.set_place(place->second);
    if (request.definition()) *status.mutable_definition() = job.stored().definition();
    for (const auto& [server, loads] : loads_) {
      const Participant* process = registry_.find(pb::ROLE_SERVER, server);
      if (process == nullptr || process->lost) continue;
      // A dynamic slack is known to the shards.
      for (const pb::ShardLoad& load : loads) {
        if (load.dynamic_job() != id.value() || !job.is_active()) continue;
        status.set_slack(std::max(status.slack(), load.dynamic_slack()));
      }
    }
    add_clocks(job, status);
    add_backup_lags(job, loads_, status);
  }
  if (request.job() != 0 && reply.jobs().empty()) reply.set_error(unknown_job(request.job()));
  for (const Participant* server : registry_.all(pb::ROLE_SERVER)) {
    pb::ServerStatus& status = *reply.add_servers();
    status = server_status(*server, now_);
    status.set_leaves(server->leaves);
    status.set_is_drained(is_drained(*server));
    for (const pb::ShardLoad& load : loads_[server->name]) *status.add_loads() = load;
  }
  reply.set_trace(trace_);
  const std::map<Incarnation, WorkerUse> busy = busy_workers();
  for (const Participant* worker : registry_.all(pb::ROLE_WORKER)) {
    pb::WorkerStatus& status = *reply.add_workers();
    const auto use = busy.find(worker->incarnation);
    status = worker_status(*worker, use == busy.end() ? JobId() : use->second.job, now_);
    status.set_leaves(worker->leaves);
    status.set_is_drained(is_drained(*worker));
  }
}

void Coordinator::on_check_nodes(const pb::CheckNodes& request, pb::CheckNodesReply& reply) {
  std::vector<const Participant*> nodes = registry_.live(pb::ROLE_SERVER);
  // Members of jobs with external members are other programs.
  for (const Participant* worker : registry_.live(pb::ROLE_WORKER)) {
    if (trains_nets(worker)) nodes.push_back(worker);
  }
  if (checks_.answer(request, nodes, reply, now_)) {
    out_.notes.add(fmt::format("{} processes are examined", nodes.size()));
  }
}

JobRecord* Coordinator::find_for_command(std::uint64_t id, std::string& error) {
  const auto found = jobs_.find(JobId(id));
  if (found == jobs_.end()) {
    error = unknown_job(id);
    return nullptr;
  }
  if (found->second.stored().state() >= pb::DONE) {
    error =
        fmt::format("job {} has ended: it is {}", id, state_word(found->second.stored().state()));
    return nullptr;
  }
  return &found->second;
}

void Coordinator::on_set_slack(const pb::SetSlack& request, pb::CommandReply& reply) {
  JobRecord* job = find_for_command(request.job(), *reply.mutable_error());
  if (job == nullptr) return;
  if (request.slack() < 0) {
    reply.set_error(fmt::format("slack {} is negative; give a number of clocks, or \"async\"",
                                request.slack()));
    return;
  }
  if (const auto fits = check_slack(job->stored().definition(), Slack(request.slack())); !fits) {
    reply.set_error(fmt::format("job {}: {}", request.job(), fits.error().message));
    return;
  }
  const Slack before(job->stored().slack());
  const Slack requested(request.slack());
  if (job->stored().wanted_slack() != request.slack()) {
    job->change().set_wanted_slack(request.slack());
  }
  if (job->stored().state() == pb::SUBMITTED) job->change().set_slack(request.slack());
  const bool changes_mode = job->stored().state() == pb::RUNNING &&
                            mode_of_slack(before.clocks()) != mode_of_slack(requested.clocks());
  reply.set_job(request.job());
  reply.set_message(fmt::format("job {}: slack {} -> {}{}", request.job(), before.to_string(),
                                requested.to_string(),
                                changes_mode ? ", from a clock ahead of every worker on" : ""));
}

void Coordinator::on_make_checkpoint(const pb::MakeCheckpoint& request, pb::CommandReply& reply) {
  JobRecord* job = nullptr;
  if (request.job() == 0) {
    std::string running;
    for (auto& [id, one] : jobs_) {
      if (one.stored().state() != pb::RUNNING || one.stored().closing()) continue;
      running += fmt::format("{}{}", running.empty() ? "" : ", ", id.value());
      job = &one;
    }
    if (job == nullptr) reply.set_error("no job is running");
    if (running.find(',') != std::string::npos) {
      reply.set_error(fmt::format("jobs {} are running: name one", running));
      job = nullptr;
    }
  } else {
    job = find_for_command(request.job(), *reply.mutable_error());
  }
  if (job == nullptr) return;
  if (job->stored().state() != pb::RUNNING || job->stored().closing()) {
    reply.set_error(fmt::format("job {} is not training now", job->stored().job()));
    return;
  }
  const auto ordered = order_checkpoint_now(*job, out_.tasks, out_.notes);
  if (!ordered) {
    reply.set_error(ordered.error().message);
    return;
  }
  reply.set_job(job->stored().job());
  reply.set_message(ordered.value());
}

void Coordinator::on_set_trace(const pb::SetTrace& request, pb::CommandReply& reply) {
  trace_ = request.on() ? pb::TRACE_ON : pb::TRACE_OFF;
  const auto processes =
      registry_.live(pb::ROLE_SERVER).size() + registry_.live(pb::ROLE_WORKER).size();
  reply.set_message(
      fmt::format("{} processes {} a timeline", processes, request.on() ? "start" : "stop"));
  out_.notes.add(fmt::format("timelines {}", request.on() ? "on" : "off"));
}

void Coordinator::drain(const Participant& process) {
  if (process.leaves) return;
  registry_.drain(process.role, process.name);
  out_.notes.add(process.title() + " is being drained");
}

/// Whether it leaves and no active job depends on it.
bool Coordinator::is_drained(const Participant& process) const {
  if (!process.leaves) return false;
  return std::none_of(jobs_.begin(), jobs_.end(), [&](const auto& entry) {
    const JobRecord& job = entry.second;
    if (!job.is_active()) return false;
    if (process.role == pb::ROLE_SERVER) {
      return has_shards(job, job.find_server(process.name, process.incarnation));
    }
    const int member = job.find_member(process.incarnation);
    return member >= 0 && (job.works(job.stored().members(member)) || is_saving(job, member));
  });
}

void Coordinator::on_drain(const pb::Drain& request, pb::CommandReply& reply) {
  const Participant* server = registry_.find(pb::ROLE_SERVER, request.name());
  const Participant* worker = registry_.find(pb::ROLE_WORKER, request.name());
  if (server != nullptr && server->lost) server = nullptr;
  if (worker != nullptr && worker->lost) worker = nullptr;
  if (server == nullptr && worker == nullptr) {
    reply.set_error(fmt::format("no such server or worker: \"{}\"; \"tautline status\" lists them",
                                request.name()));
    return;
  }
  if (server != nullptr && worker != nullptr) {
    reply.set_error(
        fmt::format("a server and a worker are named \"{}\"; end one of them with "
                    "SIGTERM and preemption_notice_s",
                    request.name()));
    return;
  }
  const Participant& process = server != nullptr ? *server : *worker;
  for (const auto& [id, job] : jobs_) {
    if (server == nullptr || !job.is_active()) continue;
    const int index = job.find_server(server->name, server->incarnation);
    if (const std::string reason = why_not_movable(job, index, registry_); !reason.empty()) {
      reply.set_error(reason);
      return;
    }
  }
  drain(process);
  reply.set_message(process.title() + (is_drained(process) ? " is drained" : " is being drained"));
}

void Coordinator::on_stop(const pb::StopJob& request, pb::CommandReply& reply) {
  JobRecord* job = find_for_command(request.job(), *reply.mutable_error());
  if (job == nullptr) return;
  if (request.finish()) {
    if (std::string why = why_not_finished(*job, request.discard()); !why.empty()) {
      reply.set_error(std::move(why));
      return;
    }
  }
  reply.set_job(request.job());
  // The newest request counts.
  if (job->stored().finishes() != request.finish()) job->change().set_finishes(request.finish());
  const bool trains = job->stored().state() == pb::RUNNING && !job->stored().closing();
  if (trains && !request.discard()) {
    const bool is_saved = job->stored().stops_when_saved() ||
                          save_and_stop(*job, request.finish() ? "it is done" : "it is stopped");
    job->change().set_requeued(false);
    if (!is_saved) {
      reply.set_message(fmt::format("job {} is {} without being saved: {}", request.job(),
                                    request.finish() ? "done" : "stopped",
                                    job->stored().checkpoint_failure()));
      return;
    }
    if (request.finish()) {
      reply.set_message(fmt::format("job {} is saved, then it is done", request.job()));
      return;
    }
    reply.set_message(
        fmt::format("job {} is saved, then stopped (--discard stops it at once)", request.job()));
    return;
  }
  job->change().set_requeued(false);
  if (!job->stored().closing()) stop_job(*job, now_, out_.notes);
  reply.set_message(job->has_ended() ? fmt::format("job {} was stopped", request.job())
                                     : fmt::format("job {} is being stopped", request.job()));
}

}  // namespace taut
