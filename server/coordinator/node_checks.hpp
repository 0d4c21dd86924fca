#pragma once

#include <map>
#include <string>
#include <utility>
#include <vector>

#include "common/time.hpp"
#include "proto/control.pb.h"
#include "server/coordinator/registry.hpp"

namespace taut {

/// A check of every node, ordered by a client: the nodes examined and their facts. One check at a
/// time; it is not saved. Pure; no I/O.
class NodeChecks {
 public:
  /// Answers a client's request: begins a check, or reports the progress of the one it names.
  /// nodes    the nodes to examine, if a check begins
  /// Returns whether a check has begun.
  bool answer(const pb::CheckNodes& request, const std::vector<const Participant*>& nodes,
              pb::CheckNodesReply& reply, TimePoint now);
  /// Handles a process's heartbeat: takes its facts, or orders them in the reply.
  void hear(const Participant& process, const pb::Heartbeat& heartbeat, pb::HeartbeatReply& reply,
            TimePoint now);

 private:
  using Key = std::pair<pb::Role, std::string>;

  [[nodiscard]] bool runs(TimePoint now) const;
  void begin(const pb::CheckNodes& request, const std::vector<const Participant*>& nodes,
             TimePoint now);

  pb::NodeCheck check_;  // the last one; number 0 if there was none
  TimePoint begun_;
  std::vector<Key> requested_;
  std::map<Key, pb::NodeFacts> facts_;
};

}  // namespace taut
