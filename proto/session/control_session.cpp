#include "proto/session/control_session.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "proto/session/data_secret.hpp"
#include "proto/wire_version.hpp"

namespace taut {
namespace {

// If no coordinator leads, every one redirects.
constexpr Duration kRedirectPause = std::chrono::milliseconds(100);
// The answer to one is expected before the next one is sent. More would be too late: if an interval
// is nearly half of the coordinator's limit, as it may be, this process is lost after two.
constexpr int kSilentHeartbeats = 2;

}  // namespace

ControlSession::ControlSession(ControlIdentity identity, ControlTimings timings, TimePoint now)
    : identity_(std::move(identity)),
      timings_(timings),
      next_send_(now),
      heard_(now),
      waiting_since_(now) {}

pb::ControlMessage ControlSession::hello() {
  pb::ControlMessage message;
  message.set_request(++last_request_);
  pb::Hello& hello = *message.mutable_hello();
  hello.set_wire_version(kWireVersion);
  hello.set_build(build_name());
  hello.set_role(identity_.role);
  hello.set_name(identity_.name);
  hello.set_session(identity_.session);
  hello.set_heartbeat_interval_s(seconds(timings_.heartbeat_interval));
  for (const std::string& address : identity_.shard_addresses) hello.add_shard_addresses(address);
  hello.set_device(identity_.device);
  hello.set_host(identity_.host);
  hello.set_job(identity_.job.value());
  hello.set_memory_bytes(identity_.memory_bytes);
  hello.set_memory_is_own(identity_.memory_is_own);
  hello.set_devices(identity_.devices);
  hello.set_table_limit_bytes(identity_.table_limit_bytes);
  hello.set_data_security(identity_.data_security);
  return message;
}

void ControlSession::greet(TimePoint now) {
  state_ = State::kGreeting;
  greeting_request_ = last_request_ + 1;
  next_send_ = now;
}

/// Between rare heartbeats no message is expected; a hello is answered at once.
Duration ControlSession::silence_limit() const {
  if (state_ == State::kGreeting) return timings_.silence_limit;
  return std::max(timings_.silence_limit, kSilentHeartbeats * timings_.heartbeat_interval);
}

ControlOutput ControlSession::tick(TimePoint now) {
  ControlOutput out;
  if (state_ == State::kRefused) return out;
  const bool expects_word = state_ == State::kGreeting || sends_heartbeats();
  if (expects_word && now - heard_ >= silence_limit()) {
    out.reconnect = true;
    heard_ = now;
    greet(now);
  }
  if (expects_word && !has_joined() && now - waiting_since_ >= timings_.wait_limit) {
    out.events.emplace_back(control_event::Unreachable{
        fmt::format("the coordinator has not answered for {:.0f} s; is the server with "
                    "coordinator {{ }} running, at the coordinator_address of this config?",
                    seconds(now - waiting_since_))});
    waiting_since_ = now;
  }
  if (now < next_send_) return out;
  if (state_ == State::kGreeting) {
    out.messages.push_back(hello());
    next_send_ = now + timings_.hello_interval;
  } else if (sends_heartbeats()) {
    pb::ControlMessage& message = out.messages.emplace_back();
    message.set_request(++last_request_);
    *message.mutable_heartbeat() = heartbeat_;
    message.mutable_heartbeat()->set_incarnation(incarnation_.value());
    message.mutable_heartbeat()->set_leaves(leaves_);
    next_send_ = now + timings_.heartbeat_interval;
  }
  return out;
}

TimePoint ControlSession::next_tick() const {
  if (state_ == State::kRefused) return TimePoint::never();
  if (state_ == State::kAccepted && !sends_heartbeats()) return TimePoint::never();
  const TimePoint next = std::min(next_send_, heard_ + silence_limit());
  return has_joined() ? next : std::min(next, waiting_since_ + timings_.wait_limit);
}

void ControlSession::report(pb::Heartbeat content, bool urgent) {
  heartbeat_ = std::move(content);
  if (urgent && state_ == State::kAccepted) next_send_ = TimePoint();
}

void ControlSession::leave() {
  leaves_ = true;
  if (state_ == State::kAccepted) next_send_ = TimePoint();
}

pb::ControlMessage ControlSession::goodbye(const std::string& reason) {
  pb::ControlMessage message;
  message.set_request(++last_request_);
  message.mutable_goodbye()->set_reason(reason);
  return message;
}

ControlOutput ControlSession::handle(const pb::ControlMessage& message, TimePoint now) {
  ControlOutput out;
  if (state_ == State::kRefused) return out;
  heard_ = now;
  waiting_since_ = now;
  switch (message.body_case()) {
    case pb::ControlMessage::kHelloReply:
      on_hello_reply(message, now, out);
      break;
    case pb::ControlMessage::kHeartbeatReply:
      note_trace(message.heartbeat_reply().trace(), out);
      if (message.heartbeat_reply().records_size() > 0) {
        const auto& marks = message.heartbeat_reply().records();
        out.events.emplace_back(control_event::Recorded{{marks.begin(), marks.end()}});
      }
      if (message.heartbeat_reply().leaves() && !std::exchange(leaves_, true)) {
        out.events.emplace_back(control_event::Leave{});
      }
      if (const pb::NodeCheck& check = message.heartbeat_reply().check();
          check.number() != 0 && std::exchange(check_, check.number()) != check.number()) {
        out.events.emplace_back(
            control_event::Check{check, to_token(message.heartbeat_reply().check_secret())});
      }
      if (leaves_ && message.heartbeat_reply().is_drained()) {
        out.events.emplace_back(control_event::Drained{});
      }
      // An answer to a message from before this hello's round is stale.
      if (accepted() && !message.heartbeat_reply().known() &&
          message.request() >= greeting_request_) {
        greet(now);
      }
      break;
    case pb::ControlMessage::kServerJob: {
      const pb::ServerJob& job = message.server_job();
      if (accepted() && is_news(server_jobs_, job.job(), job.revision())) {
        out.events.emplace_back(job);
      }
      break;
    }
    case pb::ControlMessage::kWorkerJob: {
      const pb::WorkerJob& job = message.worker_job();
      const bool mine = job.incarnation() == incarnation_.value();
      if (accepted() && mine && is_news(worker_jobs_, job.job(), job.revision())) {
        out.events.emplace_back(job);
      }
      break;
    }
    default:
      break;
  }
  return out;
}

void ControlSession::on_hello_reply(const pb::ControlMessage& message, TimePoint now,
                                    ControlOutput& out) {
  const pb::HelloReply& reply = message.hello_reply();
  // This may also answer a heartbeat: the coordinator led when it received the hello.
  if (reply.stands_by() && reply.wire_version() == kWireVersion) {
    if (message.request() < greeting_request_) return;
    out.reconnect = true;
    out.leader = reply.leader();
    greet(now);
    next_send_ = now + kRedirectPause;
    return;
  }
  if (state_ != State::kGreeting || message.request() < greeting_request_) return;
  if (reply.wire_version() != kWireVersion || !reply.accepted()) {
    state_ = State::kRefused;
    out.events.emplace_back(control_event::Refused{
        reply.wire_version() != kWireVersion
            ? wire_mismatch(kWireVersion, build_name(), reply.wire_version(), reply.build())
            : reply.reason()});
    return;
  }
  const Incarnation incarnation(reply.incarnation());
  if (has_joined() && incarnation != incarnation_) {
    server_jobs_.clear();
    worker_jobs_.clear();
    heartbeat_.Clear();
    out.events.emplace_back(control_event::DeclaredLost{
        reply.lost_reason().empty() ? "the coordinator restarted without its state"
                                    : reply.lost_reason()});
  }
  incarnation_ = incarnation;
  state_ = State::kAccepted;
  next_send_ = now;
  out.events.emplace_back(control_event::Accepted{incarnation_});
}

void ControlSession::note_trace(pb::TraceState requested, ControlOutput& out) {
  const bool says_something = requested == pb::TRACE_ON || requested == pb::TRACE_OFF;
  if (!says_something || requested == trace_) return;
  trace_ = requested;
  out.events.emplace_back(control_event::Trace{requested == pb::TRACE_ON});
}

bool ControlSession::is_news(std::map<std::uint64_t, std::uint64_t>& seen, std::uint64_t job,
                             std::uint64_t revision) const {
  const auto [entry, added] = seen.try_emplace(job, revision);
  if (!added && revision <= entry->second) return false;
  entry->second = revision;
  return true;
}

}  // namespace taut
