#include "server/coordinator/coordinator.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "server/coordinator/balance/batch_balance.hpp"
#include "server/coordinator/checkpoints/left_parts.hpp"
#include "server/coordinator/checkpoints/written_parts.hpp"
#include "server/coordinator/compression/compression_choice.hpp"
#include "server/coordinator/ranks/rank_group.hpp"

namespace taut {
namespace {

// A server that ends is noticed after one limit; a shard that is silent while its server is still
// heard fails its workers after two.
constexpr double kSilenceLimits = 2;

/// Incarnations continue from the stored number. Without one they start where no earlier
/// coordinator is likely to have been, so that servers and workers notice that they are no longer
/// known.
std::uint64_t first_incarnation(const pb::StoredCounters& stored, std::uint64_t session) {
  if (stored.next_incarnation() > 0) return stored.next_incarnation();
  return ((session & 0xffffffffU) << 20U) + 1;
}

/// Reduces a job's expected time, which was for training from clock `before` on, to training from
/// `from` on, since the queue uses it.
void expect_rest(std::int64_t before, std::int64_t from, pb::Job& definition) {
  const auto whole = static_cast<double>(definition.solver_param().max_iter() - before);
  const auto left = static_cast<double>(definition.solver_param().max_iter() - from);
  if (definition.expected_s() <= 0 || left <= 0 || left >= whole) return;
  definition.set_expected_s(definition.expected_s() * left / whole);
}

}  // namespace

Coordinator::Coordinator(CoordinatorOptions options, const CoordinatorRecords& recovered,
                         TimePoint now)
    : options_(std::move(options)),
      policy_(make_scheduling_policy(options_.scheduling.policy())),
      registry_(options_.heartbeat_limit, first_incarnation(recovered.counters, options_.session),
                options_.max_participants),
      next_job_(std::max<std::uint64_t>(recovered.counters.next_job(), 1)),
      first_new_job_(next_job_),
      saved_incarnation_(registry_.next_incarnation()),
      now_(now),
      last_tick_(now),
      recovered_at_(now),
      last_join_(now),
      had_processes_(recovered.counters.next_incarnation() > 0) {
  for (const std::uint64_t session : recovered.counters.leaving()) {
    registry_.recover_leaving(session);
  }
  saved_leaving_ = registry_.leaving();
  for (const auto& [id, stored] : recovered.jobs) recover(stored);
  names_processes_ = registry_.has_absent();
}

void Coordinator::recover(const pb::StoredJob& stored) {
  JobRecord& job =
      jobs_.emplace(JobId(stored.job()), JobRecord::recover(stored, now_)).first->second;
  for (const pb::StoredFollower& follower : stored.followers()) {
    job.followers.recover(follower.follower(), now_);
  }
  if (!job.is_active()) return;
  avoid_given_up(stored);
  for (const pb::StoredServer& server : stored.servers()) {
    if (server.lost()) continue;
    Participant known;
    known.role = pb::ROLE_SERVER;
    known.name = server.name();
    known.session = server.session();
    known.incarnation = Incarnation(server.incarnation());
    known.shard_addresses.assign(server.shard_addresses().begin(), server.shard_addresses().end());
    registry_.recover(std::move(known), now_);
  }
  for (const pb::StoredMember& member : stored.members()) {
    if (member.lost()) continue;
    Participant known;
    known.role = pb::ROLE_WORKER;
    known.name = member.member().name();
    known.session = member.session();
    known.incarnation = Incarnation(member.member().incarnation());
    known.device = member.device();
    known.job = job.takes();
    registry_.recover(std::move(known), now_);
  }
}

CoordinatorOutput Coordinator::handle(PeerId from, const pb::ControlMessage& message,
                                      TimePoint now) {
  now_ = now;
  const std::uint64_t request = message.request();
  switch (message.body_case()) {
    case pb::ControlMessage::kHello:
      on_hello(from, message);
      break;
    case pb::ControlMessage::kHeartbeat:
      on_heartbeat(from, message);
      break;
    case pb::ControlMessage::kServerJobReply: {
      const Participant* server = registry_.hear(from, now_);
      if (server != nullptr) on_server_reply(from, *server, message.server_job_reply(), false);
      break;
    }
    case pb::ControlMessage::kGoodbye:
      on_goodbye(from, message.goodbye());
      break;
    case pb::ControlMessage::kSubmit:
      on_submit(message.submit(), *send(from, request).mutable_submit_reply());
      break;
    case pb::ControlMessage::kStatusRequest:
      on_status(message.status_request(), *send(from, request).mutable_status_reply());
      break;
    case pb::ControlMessage::kSetSlack:
      on_set_slack(message.set_slack(), *send(from, request).mutable_command_reply());
      break;
    case pb::ControlMessage::kSetTrace:
      on_set_trace(message.set_trace(), *send(from, request).mutable_command_reply());
      break;
    case pb::ControlMessage::kMakeCheckpoint:
      on_make_checkpoint(message.make_checkpoint(), *send(from, request).mutable_command_reply());
      break;
    case pb::ControlMessage::kChangeQueue:
      on_change_queue(message.change_queue(), *send(from, request).mutable_command_reply());
      break;
    case pb::ControlMessage::kDrain:
      on_drain(message.drain(), *send(from, request).mutable_command_reply());
      break;
    case pb::ControlMessage::kCheckNodes:
      on_check_nodes(message.check_nodes(), *send(from, request).mutable_check_nodes_reply());
      break;
    case pb::ControlMessage::kFollow:
      on_follow(message.follow(), *send(from, request).mutable_follow_reply());
      break;
    case pb::ControlMessage::kStopJob:
      on_stop(message.stop_job(), *send(from, request).mutable_command_reply());
      break;
    default:
      // A reply: the coordinator expects none.
      break;
  }
  settle();
  return take_output();
}

CoordinatorOutput Coordinator::tick(TimePoint now) {
  now_ = now;
  // Processes that were silent while this one did not run (stopped, a hanging disk) may be alive.
  const Duration pause = now - last_tick_;
  if (pause > options_.heartbeat_limit / 2) {
    registry_.excuse_silence(pause, now);
    for (auto& [id, job] : jobs_) job.followers.excuse_silence(pause, now);
    // Soon after a restart, they could not reconnect in the pause either.
    recovered_at_ = recovered_at_ + pause;
    last_join_ = std::min(last_join_ + pause, now);
  }
  // What changes with time alone, or with progress and connections, is examined now.
  for (auto& [id, job] : jobs_) {
    job.placement_due = true;
    job.revise_finished();
  }
  last_tick_ = now;
  fitting_.clear();
  schedules_ = true;
  for (const Participant* lost : registry_.lose_silent(now)) {
    out_.notes.add(lost->lost_reason + " and was declared lost");
  }
  // A leaving process that has not returned since a restart has ended.
  if (now_ - recovered_at_ > options_.heartbeat_limit) registry_.forget_absent_leaving();
  std::erase_if(loads_, [this](const auto& entry) {
    return registry_.find(pb::ROLE_SERVER, entry.first) == nullptr;
  });
  settle();
  return take_output();
}

CoordinatorOutput Coordinator::handle_done(const CheckpointTask& task, const std::string& error,
                                           TimePoint now) {
  now_ = now;
  const auto job = jobs_.find(task.job);
  if (job != jobs_.end() && task.kind == CheckpointTask::Kind::kFinish) {
    note_finished(job->second, task, error, out_.tasks, out_.notes);
  } else if (job != jobs_.end() && task.kind == CheckpointTask::Kind::kRemoveParts) {
    note_removed(job->second, task, error, now_);
  }
  settle();
  return take_output();
}

std::string Coordinator::process_of(PeerId peer, JobId job) const {
  const Participant* process = registry_.find(peer);
  const auto found = jobs_.find(job);
  if (process == nullptr || found == jobs_.end()) return {};
  const JobRecord& record = found->second;
  const int index = process->role == pb::ROLE_SERVER
                        ? record.find_server(process->name, process->incarnation)
                        : record.find_member(process->incarnation);
  return index < 0 ? std::string() : process->name;
}

void Coordinator::settle() {
  for (auto& [id, job] : jobs_) {
    note_followers(job);
    stop_saved(job);
    advance_checkpoint(job, options_.checkpoint_limit, now_, out_.tasks, out_.notes);
    if (!job.is_active()) continue;
    note_bad_updates(job, now_, out_.notes);
    note_losses(job, registry_, now_, out_.tasks, out_.notes);
    avoid_given_up(job.stored());
    // A checkpoint withdrawn because of a lost server is ordered again before the job may end.
    advance_checkpoint(job, options_.checkpoint_limit, now_, out_.tasks, out_.notes);
    note_end(job, {options_.stop_limit, options_.worker_wait}, now_, out_.notes);
    if (job.stored().state() == pb::RUNNING && !job.stored().closing()) {
      advance_epoch(
          job, [this, &job = job] { return workers_for(job); }, out_.notes);
      advance_balance(job, {options_.balance_measure, options_.balance_hold}, now_, out_.notes);
      advance_rank_group(job, registry_, out_.notes);
      advance_compression(job, out_.notes);
    }
  }
  std::vector<pb::StoredJob> failed;
  for (const auto& [id, job] : jobs_) {
    if (may_restart(job.stored())) failed.push_back(job.stored());
  }
  for (const pb::StoredJob& job : failed) restart(job);
  for (auto& [id, job] : jobs_) remove_left_parts(job, registry_, now_, out_.tasks);
  if (std::exchange(schedules_, false)) schedule();
  for (auto& [id, job] : jobs_) deliver(job);
  forget_old_jobs();
}

void Coordinator::avoid_given_up(const pb::StoredJob& job) {
  for (const pb::StoredServer& server : job.servers()) {
    if (server.given_up()) registry_.avoid(server.session());
  }
}

void Coordinator::stop_saved(JobRecord& job) {
  const pb::StoredJob& stored = job.stored();
  const bool waits =
      stored.stops_when_saved() && stored.state() == pb::RUNNING && !stored.closing();
  if (!waits) return;
  if (!job.saving_since) job.saving_since = now_;
  const bool late = now_ - *job.saving_since >= options_.save_limit;
  if (stored.checkpoint_wanted() && !late) return;
  const bool is_saved = !stored.checkpoint_wanted() && stored.checkpoint_failure().empty();
  if (stored.requeued() && !is_saved) {
    keep_place(job);
  } else {
    stop_job(job, now_, out_.notes);
  }
}

void Coordinator::restart(const pb::StoredJob& failed) {
  const JobId id(next_job_++);
  pb::Job definition = failed.definition();
  if (failed.state() == pb::FAILED) definition.set_restart(definition.restart() - 1);
  pb::ResumePoint resume = failed.resume();
  if (failed.checkpoints_size() > 0) {
    const pb::KeptCheckpoint& newest = failed.checkpoints(failed.checkpoints_size() - 1);
    resume.set_folder(newest.folder());
    resume.set_clock(newest.clock());
    resume.set_slots(failed.slots());
    resume.set_manifest_sha256(newest.manifest_sha256());
    resume.set_token(failed.token());
  }
  const bool resumes = !resume.folder().empty();
  if (resumes) {
    definition.set_resume(resume.folder());
    expect_rest(failed.resume().clock(), resume.clock(), definition);
  }
  // As unlikely to collide as the first token, and the same if this step is repeated.
  const std::uint64_t token = failed.token() * 6364136223846793005ULL + id.value();
  pb::StoredJob next = new_job(id, token, definition, failed.user(), Slack(failed.wanted_slack()),
                               resumes ? &resume : nullptr);
  next.set_priority(failed.priority());
  next.set_service_s(failed.service_s());
  jobs_.emplace(id, JobRecord(std::move(next), now_));
  jobs_.at(JobId(failed.job())).change().set_restarted_as(id.value());
  out_.notes.add(id, fmt::format("continues job {} {}", failed.job(),
                                 resumes ? fmt::format("from clock {}", resume.clock())
                                         : std::string("from the beginning")));
}

/// A server that does not know that a forgotten job has ended reports it in its next heartbeat, and
/// is notified then.
void Coordinator::forget_old_jobs() {
  auto ended = static_cast<std::size_t>(std::count_if(
      jobs_.begin(), jobs_.end(), [](const auto& entry) { return entry.second.has_ended(); }));
  for (auto job = jobs_.begin(); job != jobs_.end() && ended > options_.ended_jobs;) {
    if (!job->second.has_ended()) {
      ++job;
      continue;
    }
    out_.changes.forgotten.insert(job->first);
    job = jobs_.erase(job);
    --ended;
  }
}

void Coordinator::deliver(JobRecord& job) {
  const pb::StoredJob& stored = job.stored();
  for (int i = 0; i < stored.servers_size(); ++i) {
    const pb::StoredServer& server = stored.servers(i);
    const Participant* process =
        registry_.find_live(pb::ROLE_SERVER, server.name(), Incarnation(server.incarnation()));
    if (process == nullptr || !process->peer) continue;
    Delivery& delivery = job.servers[static_cast<std::size_t>(i)].delivery;
    if (!delivery.is_due(stored.revision(), *process->peer, now_)) continue;
    pb::ServerJob& update = *send(*process->peer).mutable_server_job();
    update = job.server_job(i);
    update.set_backup_limit_s(seconds(options_.backup_limit));
    delivery.note_sent(stored.revision(), *process->peer, now_ + options_.resend_interval);
  }
  if (job.is_active()) deliver_to_members(job);
}

void Coordinator::deliver_to_members(JobRecord& job) {
  const pb::StoredJob& stored = job.stored();
  JobRecord::LookAtMembers look{job.version(), registry_.changes(), false, TimePoint::never()};
  const auto& last = job.delivered;
  if (last && last->version == look.version && last->lives == look.lives && now_ < last->again) {
    return;
  }
  for (int i = 0; i < stored.members_size(); ++i) {
    const pb::StoredMember& member = stored.members(i);
    JobRecord::Worker& worker = job.workers[static_cast<std::size_t>(i)];
    if (worker.delivery.acknowledged() >= member.revision()) continue;
    if (!job.works(member) && !owes_checkpoint(job, i)) continue;
    const bool may_know = stored.closing() ? worker.notified : job.servers_have(member.since());
    look.awaits_servers |= !may_know;
    const Participant* process = registry_.find_live(pb::ROLE_WORKER, member.member().name(),
                                                     Incarnation(member.member().incarnation()));
    if (!may_know || process == nullptr || !process->peer) continue;
    if (!worker.delivery.is_due(member.revision(), *process->peer, now_)) {
      look.again = std::min(look.again, worker.delivery.again());
      continue;
    }
    pb::WorkerJob& update = *send(*process->peer).mutable_worker_job();
    update = job.worker_job(i);
    update.set_silence_limit_s(kSilenceLimits * seconds(options_.heartbeat_limit));
    // An early request for an image would make a buffer step with fewer updates.
    const bool has_buffer =
        job.stored().definition().consistency().periodic_averaging().outer().buffer() > 0;
    update.set_kept_bytes(has_buffer ? 0 : options_.kept_bytes);
    worker.delivery.note_sent(member.revision(), *process->peer, now_ + options_.resend_interval);
    look.again = std::min(look.again, worker.delivery.again());
    worker.notified = true;
  }
  job.delivered = look;
}

pb::ControlMessage& Coordinator::send(PeerId to, std::uint64_t request) {
  CoordinatorMessage& outgoing = out_.messages.emplace_back();
  outgoing.to = to;
  outgoing.message.set_request(request);
  return outgoing.message;
}

CoordinatorOutput Coordinator::take_output() {
  for (auto& [id, job] : jobs_) {
    if (!job.take_changed()) continue;
    job.count_running(now_);
    if (options_.is_saved) out_.changes.jobs[id] = job.stored();
  }
  const bool counters_changed =
      registry_.next_incarnation() != saved_incarnation_ || registry_.leaving() != saved_leaving_;
  if (!out_.changes.empty() || counters_changed) {
    saved_incarnation_ = registry_.next_incarnation();
    saved_leaving_ = registry_.leaving();
    out_.changes.counters.emplace();
    out_.changes.counters->mutable_leaving()->Add(saved_leaving_.begin(), saved_leaving_.end());
    out_.changes.counters->set_next_job(next_job_);
    out_.changes.counters->set_next_incarnation(saved_incarnation_);
  }
  return std::exchange(out_, {});
}

}  // namespace taut
