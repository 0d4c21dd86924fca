#pragma once

#include <chrono>
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "common/natural_order.hpp"
#include "common/net/endpoint.hpp"
#include "common/time.hpp"
#include "common/types.hpp"
#include "proto/control.pb.h"

namespace taut {

/// A server or worker process that has sent a hello.
struct Participant {
  pb::Role role = pb::ROLE_UNKNOWN;
  std::string name;
  std::uint64_t session = 0;
  Incarnation incarnation;
  std::vector<std::string> shard_addresses;
  std::string device;
  std::string host;                     // its machine; empty if not known
  std::uint64_t memory_bytes = 0;       // of a worker, for jobs; 0: not known
  bool memory_is_own = false;           // otherwise it is shared with the host's other workers
  std::uint32_t devices = 0;            // of a worker: GPUs
  std::uint64_t table_limit_bytes = 0;  // of a server, for tables; 0: not known
  JobId job;                   // of a worker: the only job it works for; 0: those with a net
  std::optional<PeerId> peer;  // nullopt if lost, or recovered and not reconnected yet
  TimePoint joined;
  TimePoint last_heard;
  Duration heartbeat_interval{};    // 0: not known
  Duration gap{};                   // its longest recent silence
  std::uint64_t messages = 0;       // number of messages so far
  std::optional<TimePoint> closed;  // when its connection closed, if it was not heard since
  bool lost = false;
  std::string lost_reason;  // of its latest loss
  bool leaves = false;      // it takes no further work
  JobId reports;            // of a worker: the job of its run, possibly ended; 0: none
  // Sessions that requested the same name, and the value of `messages` when they did.
  std::map<std::uint64_t, std::uint64_t> rivals;

  /// `worker "w0"`, `server "s0" at 127.0.0.1:7601`: for messages.
  [[nodiscard]] std::string title() const;
};

/// The result of a hello: a participant, a refusal, or neither while it is not yet known whether
/// another process of the same name is alive.
struct Greeting {
  Participant* participant = nullptr;
  std::string refusal;
  bool is_new = false;  // a new life rather than a known one on another connection
};

/// The servers and workers that have joined, by name, each with its newest life; the most recently
/// lost ones are remembered. Pure; no I/O.
class Registry {
 public:
  static constexpr std::size_t kMaxParticipants = 4096;
  /// A process whose connection has closed is lost if it is not heard for this long, for twice its
  /// heartbeat interval or for twice its longest recent silence, whichever is longest.
  static constexpr Duration kMaxClosed = std::chrono::milliseconds(500);

  /// next_incarnation  the first unused incarnation
  /// max_participants  the most processes that are registered at once
  Registry(Duration heartbeat_limit, std::uint64_t next_incarnation,
           std::size_t max_participants = kMaxParticipants)
      : heartbeat_limit_(heartbeat_limit),
        max_participants_(max_participants),
        next_incarnation_(next_incarnation) {}

  /// Handles a hello. A second live process of one name is refused once the first has shown that it
  /// is alive.
  [[nodiscard]] Greeting greet(PeerId from, const pb::Hello& hello, TimePoint now);
  /// Adds a process that was known before the coordinator restarted. If the records of several jobs
  /// name different lives of it, the newest remains.
  void recover(Participant participant, TimePoint now);

  /// Notes that a peer's connection has closed, as when its process ends: if the process is not
  /// heard soon, on any connection, it is lost before it has been silent for the whole limit. If
  /// more than half of the processes lose their connections together, the network is assumed to be
  /// at fault, and the whole limit applies.
  void note_closed(PeerId peer, TimePoint now);
  /// Notes that every message received so far has been heard.
  void note_idle(TimePoint now) { idle_ = now; }
  /// Records a message of a peer. Returns its process, or nullptr if it must send a hello first.
  Participant* hear(PeerId from, TimePoint now);
  void lose(Participant& participant, const std::string& reason);
  /// Declares processes lost that have been silent beyond their limit, and returns them.
  std::vector<const Participant*> lose_silent(TimePoint now);
  /// Excuses silence of length `pause`, in which the coordinator itself did not run.
  void excuse_silence(Duration pause, TimePoint now);

  /// The live process of this name and life, or nullptr.
  [[nodiscard]] const Participant* find_live(pb::Role role, const std::string& name,
                                             Incarnation incarnation) const;
  /// Why a process with this life has left.
  [[nodiscard]] std::string loss_of(pb::Role role, const std::string& name,
                                    Incarnation incarnation) const;
  /// All connected processes of a role, in name order: worker2 before worker10.
  [[nodiscard]] std::vector<const Participant*> live(pb::Role role) const;
  /// The connected ones that take work: neither those that are leaving nor avoided ones.
  [[nodiscard]] std::vector<const Participant*> available(pb::Role role) const;
  /// The available workers that are dedicated to this job; 0: those that train nets.
  [[nodiscard]] std::vector<const Participant*> available_for(JobId job) const;
  /// Marks a process as leaving: it takes no further work.
  void drain(pb::Role role, const std::string& name);
  /// The sessions of processes that are leaving and have neither ended nor been lost; saved.
  [[nodiscard]] const std::set<std::uint64_t>& leaving() const { return leaving_; }
  /// Restores a leaving session from before a restart: its process may not have been notified yet.
  /// REQUIRES: no process has been recovered or greeted
  void recover_leaving(std::uint64_t session) { leaving_.insert(session); }
  /// Forgets the leaving sessions of processes that are lost or unknown: they have ended.
  void forget_absent_leaving();
  /// Gives no further work to the process of this session, in any life: a job has given it up.
  void avoid(std::uint64_t session);
  /// All processes ever seen, in name order.
  [[nodiscard]] std::vector<const Participant*> all(pb::Role role) const;
  /// The process of this name, lost or not, or nullptr.
  [[nodiscard]] const Participant* find(pb::Role role, const std::string& name) const;

  /// The process on this connection, or nullptr.
  [[nodiscard]] const Participant* find(PeerId peer) const;
  /// Whether a process that was known before the coordinator restarted has neither reconnected nor
  /// been lost.
  [[nodiscard]] bool has_absent() const;
  /// Whether this process, which may be dead, has been silent for more than half of the limit while
  /// another one was heard.
  [[nodiscard]] bool is_silent(const Participant& participant) const;
  /// The longest heartbeat interval of any connected process; 0 if none is known.
  [[nodiscard]] Duration longest_interval() const;

  [[nodiscard]] std::uint64_t next_incarnation() const { return next_incarnation_; }
  /// Rises whenever a process joins, starts to leave, is avoided or is lost; not on a reconnect.
  [[nodiscard]] std::uint64_t changes() const { return changes_; }
  /// Rises with changes() and on each reconnect: while it is unchanged, the same processes are
  /// live, with the same facts.
  [[nodiscard]] std::uint64_t states() const { return changes_ + connections_; }

 private:
  using Key = std::pair<pb::Role, std::string>;
  struct KeyOrder {
    bool operator()(const Key& a, const Key& b) const {
      return a.first != b.first ? a.first < b.first : NaturalOrder()(a.second, b.second);
    }
  };

  Participant& enter(PeerId from, const pb::Hello& hello, TimePoint now);
  /// Forgets lost processes beyond those that are remembered, the longest silent first.
  void forget_lost();
  static void note_heard(Participant& participant, TimePoint now);
  /// The deadline of a process whose connection has closed; never() if only the limit applies.
  [[nodiscard]] static TimePoint closed_deadline_of(const Participant& participant);
  void detach(Participant& participant);
  void attach(Participant& participant, PeerId from, TimePoint now);

  const Duration heartbeat_limit_;
  const std::size_t max_participants_;
  std::uint64_t next_incarnation_;
  std::set<std::uint64_t> avoided_;  // sessions
  std::set<std::uint64_t> leaving_;  // sessions
  std::uint64_t changes_ = 0;
  std::uint64_t connections_ = 0;
  TimePoint none_silent_until_ = TimePoint::never();  // no process exceeds its limit before
  TimePoint idle_;                                    // when no received message was left
  TimePoint closes_ignored_until_;
  std::map<Key, Participant, KeyOrder> participants_;
  std::map<PeerId, Key> peers_;
};

}  // namespace taut
