#pragma once

#include <map>
#include <string>
#include <utility>
#include <vector>

#include "common/time.hpp"
#include "proto/control.pb.h"
#include "server/coordinator/registry.hpp"

namespace taut {

/// The check of every node that a client has ordered: the nodes examined and their facts. One at a
/// time; nothing of it is stored. Pure; no I/O.
class NodeChecks {
 public:
  /// A client's request: begins a check, or says how far that of its number is.
  /// nodes    those that are asked, if it begins
  /// Returns whether it has begun.
  bool answer(const pb::CheckNodes& request, const std::vector<const Participant*>& nodes,
              pb::CheckNodesReply& reply, TimePoint now);
  /// A heartbeat of a process: takes its facts, or has them ordered with the answer.
  void hear(const Participant& process, const pb::Heartbeat& heartbeat, pb::HeartbeatReply& reply,
            TimePoint now);

 private:
  using Key = std::pair<pb::Role, std::string>;

  [[nodiscard]] bool runs(TimePoint now) const;
  void begin(const pb::CheckNodes& request, const std::vector<const Participant*>& nodes,
             TimePoint now);

  pb::NodeCheck check_;  // the last one; number 0: there was none
  TimePoint begun_;
  std::vector<Key> requested_;
  std::map<Key, pb::NodeFacts> facts_;
};

}  // namespace taut
