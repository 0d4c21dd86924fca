#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "common/net/data_token.hpp"
#include "common/time.hpp"
#include "common/types.hpp"
#include "proto/control.pb.h"

namespace taut {

/// The process that sends a hello to the coordinator.
struct ControlIdentity {
  pb::Role role = pb::ROLE_UNKNOWN;
  std::string name;
  std::uint64_t session = 0;                 // different at every process start
  std::vector<std::string> shard_addresses;  // servers
  std::string device;                        // workers
  std::string host;                          // workers: the machine's name
  JobId job{};                               // workers: the only job that this one serves; 0: any
  std::uint64_t memory_bytes = 0;            // workers: what jobs may reserve; 0: not known
  bool memory_is_own = false;                // otherwise other workers of the host share it
  std::uint32_t devices = 0;                 // workers: GPUs
  std::uint64_t table_limit_bytes = 0;       // servers: for tables; 0: not known
  pb::DataSecurity data_security = pb::DATA_SECURITY_ANY;  // ANY: as the coordinator has it
};

struct ControlTimings {
  Duration heartbeat_interval = std::chrono::milliseconds(500);
  Duration hello_interval = std::chrono::milliseconds(500);
  // If the coordinator is silent for this long, and for as long as two heartbeats, the connection
  // is replaced.
  Duration silence_limit = std::chrono::seconds(5);
  // If the first hello is not answered for this long, the owner is notified that there is no
  // coordinator.
  Duration wait_limit = std::chrono::seconds(60);
};

/// Events for the owner of a ControlSession.
namespace control_event {
/// The coordinator has accepted this process, for the first time or again.
struct Accepted {
  Incarnation incarnation;
};
/// The hello was refused permanently; the session is over.
struct Refused {
  std::string reason;
};
/// The process was declared lost, or the coordinator lost its state: all its jobs are over. An
/// Accepted follows.
struct DeclaredLost {
  std::string reason;
};
/// The first hello was not answered within the wait limit; the session keeps trying. A process that
/// has joined never gets it: its parameters and its training outlive a coordinator.
struct Unreachable {
  std::string reason;
};
/// Whether every process should record a timeline.
struct Trace {
  bool on = false;
};
/// The process must hand its work over to others and then end.
struct Leave {};
/// The process is leaving, and nothing depends on it any more.
struct Drained {};
/// What the process must find out about itself; each check arrives once.
struct Check {
  pb::NodeCheck check;
  std::optional<DataToken> secret{};  // for hellos to shards, if the data plane is plain
};
/// How much of a job's records the coordinator has.
struct Recorded {
  std::vector<pb::RecordMark> marks;
};
}  // namespace control_event

/// Jobs are desired state: each revision arrives once, and older revisions are dropped.
using ControlEvent =
    std::variant<control_event::Accepted, control_event::Refused, control_event::DeclaredLost,
                 control_event::Unreachable, control_event::Trace, control_event::Recorded,
                 control_event::Leave, control_event::Drained, control_event::Check, pb::ServerJob,
                 pb::WorkerJob>;

struct ControlOutput {
  bool reconnect = false;  // before sending: replace the connection
  std::string leader;      // with reconnect: where the coordinator is; empty: not known
  std::vector<pb::ControlMessage> messages;
  std::vector<ControlEvent> events;
};

/// The coordinator's counterpart in servers, workers and clients: sends hello until it is answered,
/// heartbeats at intervals, and hello again after every loss of contact. Clients send no
/// heartbeats.
/// Thread    its owner's; no I/O: the owner sends the messages, calls tick() by next_tick()
class ControlSession {
 public:
  ControlSession(ControlIdentity identity, ControlTimings timings, TimePoint now);

  [[nodiscard]] ControlOutput handle(const pb::ControlMessage& message, TimePoint now);
  [[nodiscard]] ControlOutput tick(TimePoint now);
  /// The latest time for the next tick().
  [[nodiscard]] TimePoint next_tick() const;

  /// Sets the content of further heartbeats. Urgent: the next tick() sends one.
  void report(pb::Heartbeat content, bool urgent = false);
  /// Requests to be drained, from now on with every heartbeat.
  void leave();
  [[nodiscard]] bool leaves() const { return leaves_; }
  /// The message to send before ending, so that no process waits for this one.
  [[nodiscard]] pb::ControlMessage goodbye(const std::string& reason);

  [[nodiscard]] bool accepted() const { return state_ == State::kAccepted; }
  [[nodiscard]] Incarnation incarnation() const { return incarnation_; }

 private:
  enum class State : std::uint8_t { kGreeting, kAccepted, kRefused };

  [[nodiscard]] pb::ControlMessage hello();
  [[nodiscard]] bool has_joined() const { return incarnation_ != Incarnation(); }
  [[nodiscard]] bool sends_heartbeats() const { return identity_.role != pb::ROLE_CLIENT; }
  [[nodiscard]] Duration silence_limit() const;
  void greet(TimePoint now);
  void on_hello_reply(const pb::ControlMessage& message, TimePoint now, ControlOutput& out);
  void note_trace(pb::TraceState requested, ControlOutput& out);
  [[nodiscard]] bool is_news(std::map<std::uint64_t, std::uint64_t>& seen, std::uint64_t job,
                             std::uint64_t revision) const;

  const ControlIdentity identity_;
  const ControlTimings timings_;
  State state_ = State::kGreeting;
  Incarnation incarnation_;
  pb::Heartbeat heartbeat_;
  bool leaves_ = false;
  pb::TraceState trace_ = pb::TRACE_AS_CONFIGURED;
  std::uint64_t check_ = 0;  // the number of the last one
  std::uint64_t last_request_ = 0;
  std::uint64_t greeting_request_ = 1;  // the first hello of this round; older replies are stale
  TimePoint next_send_;                 // of a hello or a heartbeat
  TimePoint heard_;                     // when the coordinator was last heard, or connected to
  TimePoint waiting_since_;             // start of Unreachable's wait
  // The highest revision returned, by job.
  std::map<std::uint64_t, std::uint64_t> server_jobs_;
  std::map<std::uint64_t, std::uint64_t> worker_jobs_;
};

}  // namespace taut
