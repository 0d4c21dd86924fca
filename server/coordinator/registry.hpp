#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "common/natural_order.hpp"
#include "common/net/endpoint.hpp"
#include "common/time.hpp"
#include "common/types.hpp"
#include "proto/control.pb.h"

namespace taut {

/// A server or worker process that said hello.
struct Participant {
  pb::Role role = pb::ROLE_UNKNOWN;
  std::string name;
  std::uint64_t session = 0;
  Incarnation incarnation;
  std::vector<std::string> shard_addresses;
  std::string device;
  std::optional<PeerId> peer;  // none: lost, or known from before a restart and not back yet
  TimePoint joined;
  TimePoint heard;
  std::uint64_t words = 0;  // messages so far
  bool lost = false;
  std::string lost_reason;  // of its latest loss
  // Processes that want the same name, and how many words this one had said when they asked.
  std::map<std::uint64_t, std::uint64_t> rivals;

  /// `worker "w0"`, `server "s0" at 127.0.0.1:7601`: how messages name it.
  [[nodiscard]] std::string title() const;
};

/// What comes of a hello: a participant, a refusal, or neither while it is not yet known whether
/// another process of the same name is alive.
struct Greeting {
  Participant* participant = nullptr;
  std::string refusal;
  bool is_new = false;  // a new life, rather than a known one on another connection
};

/// Who is here: servers and workers by name, with the lives they have had. Pure; no I/O.
class Registry {
 public:
  /// next_incarnation  the first number that no life has had
  Registry(Duration heartbeat_limit, std::uint64_t next_incarnation)
      : heartbeat_limit_(heartbeat_limit), next_incarnation_(next_incarnation) {}

  /// A second live process of one name is refused, once the first has shown that it lives.
  [[nodiscard]] Greeting greet(PeerId from, const pb::Hello& hello, TimePoint now);
  /// Enters one that was here before the coordinator restarted.
  void recover(Participant participant, TimePoint now);

  /// Notes that a peer spoke. Returns who it is, or nullptr where it must say hello first.
  Participant* hear(PeerId from, TimePoint now);
  void lose(Participant& participant, const std::string& reason);
  /// Declares lost who was silent beyond the limit; returns them.
  std::vector<const Participant*> lose_silent(TimePoint now);
  /// Nobody could be heard for so long, because the coordinator itself did not run.
  void excuse_silence(Duration pause, TimePoint now);

  /// The live process of this name and life, or nullptr.
  [[nodiscard]] const Participant* find_live(pb::Role role, const std::string& name,
                                             Incarnation incarnation) const;
  /// Everybody of a role that is connected, in name order: worker2 before worker10.
  [[nodiscard]] std::vector<const Participant*> live(pb::Role role) const;
  /// Everybody ever seen, in name order.
  [[nodiscard]] std::vector<const Participant*> all(pb::Role role) const;
  /// The process of this name, lost or not, or nullptr.
  [[nodiscard]] const Participant* find(pb::Role role, const std::string& name) const;

  [[nodiscard]] std::uint64_t next_incarnation() const { return next_incarnation_; }

 private:
  using Key = std::pair<pb::Role, std::string>;
  struct KeyOrder {
    bool operator()(const Key& a, const Key& b) const {
      return a.first != b.first ? a.first < b.first : NaturalOrder()(a.second, b.second);
    }
  };

  Participant& enter(PeerId from, const pb::Hello& hello, TimePoint now);
  void detach(Participant& participant);
  void attach(Participant& participant, PeerId from, TimePoint now);

  const Duration heartbeat_limit_;
  std::uint64_t next_incarnation_;
  std::map<Key, Participant, KeyOrder> participants_;
  std::map<PeerId, Key> peers_;
};

}  // namespace taut
