#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "common/time.hpp"
#include "common/types.hpp"
#include "proto/control.pb.h"

namespace taut {

/// Who says hello to the coordinator.
struct ControlIdentity {
  pb::Role role = pb::ROLE_UNKNOWN;
  std::string name;
  std::uint64_t session = 0;                 // different in every process start
  std::vector<std::string> shard_addresses;  // servers
  std::string device;                        // workers
};

struct ControlTimings {
  Duration heartbeat_interval = std::chrono::milliseconds(500);
  Duration hello_interval = std::chrono::milliseconds(500);
  // Without a word from the coordinator for so long, the connection is made anew.
  Duration silence_limit = std::chrono::seconds(5);
  // Without a word for so long, the owner is told that the coordinator cannot be reached.
  Duration wait_limit = std::chrono::seconds(60);
};

/// What an owner of a ControlSession learns from it.
namespace control_event {
/// The coordinator knows this process, now or again.
struct Accepted {
  Incarnation incarnation;
};
/// The hello was refused for good; the session is over.
struct Refused {
  std::string reason;
};
/// The process was declared lost, or the coordinator lost its memory: every job it worked for is
/// over. An Accepted follows.
struct DeclaredLost {
  std::string reason;
};
/// Nothing was heard for the wait limit; the session goes on trying.
struct Unreachable {
  std::string reason;
};
/// Everybody is to keep a timeline, or none.
struct Trace {
  bool on = false;
};
}  // namespace control_event

/// Jobs are the desired state: each arrives once for each revision, newest first seen wins.
using ControlEvent =
    std::variant<control_event::Accepted, control_event::Refused, control_event::DeclaredLost,
                 control_event::Unreachable, control_event::Trace, pb::ServerJob, pb::WorkerJob>;

struct ControlOutput {
  bool reconnect = false;  // before sending: give the connection up and make another
  std::vector<pb::ControlMessage> messages;
  std::vector<ControlEvent> events;
};

/// The coordinator's other side, in servers, workers and clients: hello until it is answered,
/// heartbeats on time, hello again after every loss of contact. A client sends no heartbeats.
/// Thread    its owner's; no I/O: the owner sends what comes out and calls tick() by next_tick()
class ControlSession {
 public:
  ControlSession(ControlIdentity identity, ControlTimings timings, TimePoint now);

  [[nodiscard]] ControlOutput handle(const pb::ControlMessage& message, TimePoint now);
  [[nodiscard]] ControlOutput tick(TimePoint now);
  /// When tick() has something to do at the latest.
  [[nodiscard]] TimePoint next_tick() const;

  /// What heartbeats carry from now on. Urgent: the next tick() sends one, whatever the interval.
  void report(pb::Heartbeat content, bool urgent = false);
  /// What to send before ending, so that nobody waits for this process.
  [[nodiscard]] pb::ControlMessage goodbye(const std::string& reason);

  [[nodiscard]] bool accepted() const { return state_ == State::kAccepted; }
  [[nodiscard]] Incarnation incarnation() const { return incarnation_; }

 private:
  enum class State : std::uint8_t { kGreeting, kAccepted, kRefused };

  [[nodiscard]] pb::ControlMessage hello();
  [[nodiscard]] bool sends_heartbeats() const { return identity_.role != pb::ROLE_CLIENT; }
  void greet(TimePoint now);
  void on_hello_reply(const pb::ControlMessage& message, TimePoint now, ControlOutput& out);
  void note_trace(pb::TraceState wanted, ControlOutput& out);
  [[nodiscard]] bool is_news(std::map<std::uint64_t, std::uint64_t>& seen, std::uint64_t job,
                             std::uint64_t revision) const;

  const ControlIdentity identity_;
  const ControlTimings timings_;
  State state_ = State::kGreeting;
  Incarnation incarnation_;
  pb::Heartbeat heartbeat_;
  pb::TraceState trace_ = pb::TRACE_AS_CONFIGURED;
  std::uint64_t last_request_ = 0;
  std::uint64_t greeting_request_ = 1;  // the first hello of this round; older replies are stale
  TimePoint next_send_;                 // of a hello or a heartbeat
  TimePoint heard_;                     // from the coordinator, or when its connection was made
  TimePoint waiting_since_;             // when Unreachable's wait began
  // The highest revision surfaced, by job.
  std::map<std::uint64_t, std::uint64_t> server_jobs_;
  std::map<std::uint64_t, std::uint64_t> worker_jobs_;
};

}  // namespace taut
