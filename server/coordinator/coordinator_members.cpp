// What servers and workers send: that they are here, how they are, and that they leave.
#include <fmt/format.h>

#include <string_view>
#include <utility>

#include "proto/state_word.hpp"
#include "proto/wire_version.hpp"
#include "server/coordinator/coordinator.hpp"

namespace taut {
namespace {

constexpr Duration kBetweenRefusalNotes = std::chrono::seconds(1);

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

}  // namespace

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

}  // namespace taut
