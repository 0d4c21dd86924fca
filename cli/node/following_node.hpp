#pragma once

#include <filesystem>
#include <memory>
#include <string>

#include "cli/daemon_group.hpp"
#include "cli/node/meeting.hpp"
#include "cli/node/node_run.hpp"
#include "cli/node/node_share.hpp"
#include "common/result.hpp"
#include "proto/session/control_client.hpp"

namespace taut::cli {

/// Every rank but 0: finds the leader, runs its share of the daemons, and ends with the run.
/// Thread: main.
class FollowingNode {
 public:
  FollowingNode(const NodeOptions& options, const NodePlace& place, NodeShare share,
                std::filesystem::path folder);

  /// Returns the run's exit status from the leader.
  /// Errors    timeout: no leader answers, or it stopped answering; unavailable: a daemon ended
  [[nodiscard]] Result<int> run();
  /// Ends the daemons and removes this node's notice.
  void end();

 private:
  /// Waits for a leader that answers: the folder's content may be from an earlier attempt.
  [[nodiscard]] Result<void> find_leader();
  [[nodiscard]] Result<ControlClient> connect(const std::string& coordinator) const;
  [[nodiscard]] Result<void> start_daemons();
  /// Returns the exit status of the run once it has ended.
  [[nodiscard]] Result<int> await_end();

  const NodeOptions& options_;
  const NodePlace& place_;
  const NodeShare share_;
  Meeting meeting_;
  DaemonGroup daemons_;
  std::string coordinator_;
  std::unique_ptr<ControlClient> control_;
};

}  // namespace taut::cli
