#include "server/coordinator/coordinator.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <string_view>
#include <utility>

#include "proto/state_word.hpp"
#include "proto/wire_version.hpp"
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
constexpr Duration kBetweenRefusalNotes = std::chrono::seconds(1);

/// Incarnations continue from the stored number. Without one they start where no earlier
/// coordinator is likely to have been, so that servers and workers notice that they are no longer
/// known.
std::uint64_t first_incarnation(const pb::StoredCounters& stored, std::uint64_t session) {
  if (stored.next_incarnation() > 0) return stored.next_incarnation();
  return ((session & 0xffffffffU) << 20U) + 1;
}

std::string_view word_of(pb::DataSecurity security) {
  switch (security) {
    case pb::DATA_SECURITY_TOKEN:
      return "data_security: TOKEN";
    case pb::DATA_SECURITY_NONE:
      return "insecure: true";
    default:
      return "data_security: CURVE";
  }
}

/// Why a daemon's data plane does not fit this cluster; empty if it does, or if either takes any.
std::string why_other_security(const pb::Hello& hello, pb::DataSecurity ours) {
  const pb::DataSecurity theirs = hello.data_security();
  const bool is_same = theirs == ours || theirs == pb::DATA_SECURITY_ANY;
  if (is_same || ours == pb::DATA_SECURITY_ANY) return {};
  return fmt::format(
      "{} \"{}\" has {} and the coordinator has {}: give all daemons of the cluster the same in "
      "their cluster files (the default is CURVE)",
      hello.role() == pb::ROLE_SERVER ? "server" : "worker", hello.name(), word_of(theirs),
      word_of(ours));
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

void Coordinator::on_hello(PeerId from, const pb::ControlMessage& message) {
  const pb::Hello& hello = message.hello();
  pb::HelloReply reply;
  reply.set_wire_version(kWireVersion);
  reply.set_build(build_name());
  reply.set_session(options_.session);
  if (hello.wire_version() != kWireVersion) {
    reply.set_reason(
        wire_mismatch(kWireVersion, build_name(), hello.wire_version(), hello.build()));
  } else if (hello.role() == pb::ROLE_CLIENT) {
    reply.set_accepted(true);
  } else if (hello.role() != pb::ROLE_SERVER && hello.role() != pb::ROLE_WORKER) {
    reply.set_reason(fmt::format("a hello of role {}, which this side does not know",
                                 static_cast<int>(hello.role())));
  } else if (std::string reason = why_other_security(hello, options_.data_security);
             !reason.empty()) {
    reply.set_reason(std::move(reason));
  } else if (std::string reason = why_not_member(JobId(hello.job())); !reason.empty()) {
    reply.set_reason(std::move(reason));
  } else {
    const Greeting greeting = registry_.greet(from, hello, now_);
    reply.set_reason(greeting.refusal);
    if (greeting.participant != nullptr) {
      reply.set_accepted(true);
      reply.set_incarnation(greeting.participant->incarnation.value());
      reply.set_lost_reason(greeting.participant->lost_reason);
      if (greeting.is_new) {
        out_.notes.add(greeting.participant->title() + " has joined");
        last_join_ = now_;
      }
      note_connection(*greeting.participant);
    } else if (greeting.refusal.empty()) {
      return;  // it will repeat the hello; by then it is known whether the name is free
    }
  }
  if (!reply.accepted()) note_refusal(reply.reason());
  *send(from, message.request()).mutable_hello_reply() = reply;
}

/// Notes at most one a second: a peer must neither fill the log nor push lines out of the status.
void Coordinator::note_refusal(const std::string& reason) {
  if (now_ < next_refusal_note_) {
    ++quiet_refusals_;
    return;
  }
  next_refusal_note_ = now_ + kBetweenRefusalNotes;
  const std::uint64_t quiet = std::exchange(quiet_refusals_, 0);
  out_.notes.add(fmt::format("hello refused: {}{}", reason,
                             quiet == 0 ? "" : fmt::format(" (and {} more hellos)", quiet)));
}

/// Has state that it was sent on an earlier connection and has not acknowledged sent on this one.
void Coordinator::note_connection(const Participant& participant) {
  for (auto& [id, job] : jobs_) {
    const int index = job.is_active() ? job.find_member(participant.incarnation) : -1;
    if (index < 0) continue;
    const Delivery& delivery = job.workers[static_cast<std::size_t>(index)].delivery;
    if (delivery.acknowledged() < job.stored().members(index).revision()) job.delivered.reset();
  }
}

std::string Coordinator::why_not_member(JobId id) const {
  if (id == JobId()) return {};
  const auto found = jobs_.find(id);
  if (found == jobs_.end()) {
    return fmt::format("job {} does not exist; \"tautline status\" lists the jobs", id.value());
  }
  const JobRecord& job = found->second;
  if (job.takes() == JobId()) {
    return fmt::format("job {} trains a net, and its workers are started with \"tautline-worker\"",
                       id.value());
  }
  if (!job.has_ended()) return {};
  return fmt::format("job {} has ended: it is {}", id.value(), state_word(job.stored().state()));
}

/// Why a process that waits for a place in its job will get none; empty if it may, or had one.
std::string Coordinator::why_never_scheduled(const Participant& participant) const {
  std::string reason = why_not_member(participant.job);
  const auto job = jobs_.find(participant.job);
  const bool had_place =
      job != jobs_.end() && job->second.find_member(participant.incarnation) >= 0;
  return had_place ? std::string() : reason;
}

void Coordinator::on_heartbeat(PeerId from, const pb::ControlMessage& message) {
  Participant* participant = registry_.hear(from, now_);
  pb::HeartbeatReply& reply = *send(from, message.request()).mutable_heartbeat_reply();
  // A late copy of a hello can start a life that its process does not know of.
  const std::uint64_t life = message.heartbeat().incarnation();
  const bool known =
      participant != nullptr && (life == 0 || life == participant->incarnation.value());
  reply.set_known(known);
  reply.set_trace(trace_);
  if (!known) {
    reply.set_reason("this connection has sent no hello, or its process was declared lost");
    return;
  }
  if (const std::string reason = why_never_scheduled(*participant); !reason.empty()) {
    // It sends another hello, which is refused with the reason.
    registry_.lose(*registry_.hear(from, now_), reason);
    reply.set_known(false);
    reply.set_reason(reason);
    return;
  }
  const pb::Heartbeat& heartbeat = message.heartbeat();
  if (heartbeat.leaves()) drain(*participant);
  participant->reports = JobId(heartbeat.progress().job());
  checks_.hear(*participant, heartbeat, reply, now_);
  reply.set_leaves(participant->leaves);
  reply.set_is_drained(is_drained(*participant));
  if (participant->role == pb::ROLE_SERVER) {
    loads_[participant->name].assign(heartbeat.shards().begin(), heartbeat.shards().end());
    for (const pb::ServerJobReply& job : heartbeat.jobs()) {
      on_server_reply(from, *participant, job, true);
    }
  } else if (heartbeat.has_progress() && heartbeat.progress().job() != 0) {
    on_progress(from, *participant, heartbeat.progress());
  }
}

void Coordinator::on_goodbye(PeerId from, const pb::Goodbye& goodbye) {
  Participant* participant = registry_.hear(from, now_);
  if (participant == nullptr) return;
  registry_.lose(*participant, fmt::format("{} left{}{}", participant->title(),
                                           goodbye.reason().empty() ? "" : ": ", goodbye.reason()));
  out_.notes.add(participant->lost_reason);
}

void Coordinator::on_server_reply(PeerId from, const Participant& server,
                                  const pb::ServerJobReply& reply, bool in_heartbeat) {
  const auto found = jobs_.find(JobId(reply.job()));
  const int index =
      found == jobs_.end() ? -1 : found->second.find_server(server.name, server.incarnation);
  if (index >= 0) {
    JobRecord& job = found->second;
    job.take_reply(index, reply);
    const bool is_lost = job.stored().servers(index).lost();
    if (!reply.error().empty() && !is_lost && job.is_active() && !job.stored().closing()) {
      fail_job(job, fmt::format("{}: {}", server.title(), reply.error()), now_, out_.notes);
    }
    return;
  }
  // The server still has a job that it does not belong to.
  if (!in_heartbeat) return;
  pb::ServerJob& drop = *send(from).mutable_server_job();
  drop.set_job(reply.job());
  drop.set_revision(reply.revision() + 1);
  drop.set_finished(true);
}

void Coordinator::on_progress(PeerId from, const Participant& worker,
                              const pb::Progress& progress) {
  const auto found = jobs_.find(JobId(progress.job()));
  const bool is_its_own = progress.incarnation() == worker.incarnation.value();
  const int index =
      found == jobs_.end() || !is_its_own ? -1 : found->second.find_member(worker.incarnation);
  const bool over = progress.finished() || progress.left() || !progress.error().empty();
  // A quarantined worker counts as lost although it is alive.
  const bool is_lost = index >= 0 && found->second.stored().members(index).lost();
  if (index >= 0 && found->second.is_active() && (over || !is_lost)) {
    JobRecord& job = found->second;
    // A worker that failed sends its error until it gets another job.
    if (is_lost) return;
    job.take_progress(index, progress, now_);
    if (progress.left() && !job.stored().closing()) {
      note_left(job, index, worker.title(), out_.notes);
    }
    if (!progress.error().empty()) note_failure(job, index, worker.title(), now_, out_.notes);
    return;
  }
  // The worker still works for a job that has ended, or that continues without it.
  if (over) return;
  pb::WorkerJob& stop = *send(from).mutable_worker_job();
  stop.set_job(progress.job());
  stop.set_revision(progress.revision() + 1);
  // For the life that reports: a later life, if this reaches it late, must not stop.
  stop.set_incarnation(progress.incarnation());
  stop.set_stop(true);
  stop.set_stop_reason(index >= 0 && !is_lost ? "the job has ended"
                                              : "this worker is not a member of the job");
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
