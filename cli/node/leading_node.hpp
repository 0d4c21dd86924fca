#pragma once

#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "cli/daemon_group.hpp"
#include "cli/node/meeting.hpp"
#include "cli/node/node_run.hpp"
#include "cli/node/node_share.hpp"
#include "cli/submitted_job.hpp"
#include "common/keys/run_keys.hpp"
#include "common/result.hpp"
#include "common/time.hpp"
#include "proto/job.pb.h"

namespace taut::cli {

/// Rank 0: hosts the coordinator, waits until every node has joined, submits the job, and ends the
/// run. Thread: main.
class LeadingNode {
 public:
  LeadingNode(const NodeOptions& options, const NodePlace& place, NodeShare share,
              std::filesystem::path folder);

  /// Runs everything. Returns the exit status of a run that has ended; its summary is printed.
  /// Errors    the job or the folder cannot be used; a node did not join; interrupted
  [[nodiscard]] Result<int> run();
  /// Notifies the other nodes, waits a moment for them to leave, and ends the daemons.
  void end(int status);

 private:
  [[nodiscard]] Result<void> prepare_job();
  /// Continues a job that an earlier attempt has saved.
  [[nodiscard]] Result<void> continue_from_checkpoint();
  [[nodiscard]] Result<void> start_daemons();
  [[nodiscard]] Result<void> await_nodes();
  [[nodiscard]] Result<void> check_notices(const std::vector<NodeNotice>& notices) const;
  [[nodiscard]] Result<void> examine_nodes();
  [[nodiscard]] Result<int> train();
  [[nodiscard]] Result<int> serve();
  /// Saves and ends the submitted jobs that run, within the time for that; prints those left
  /// unsaved.
  [[nodiscard]] Result<void> save_submitted();
  [[nodiscard]] Result<void> check_daemons();
  [[nodiscard]] std::string how_to_continue() const;

  const NodeOptions& options_;
  const NodePlace& place_;
  const NodeShare share_;
  const TimePoint began_ = steady_now();
  Meeting meeting_;
  std::optional<RunKeys> keys_;  // removed after the daemons have ended
  DaemonGroup daemons_;
  std::string coordinator_;
  std::unique_ptr<SubmittedJob> job_;
  pb::Job definition_;
  std::uint32_t servers_ = 0;  // of all nodes, as are the workers
  std::uint32_t workers_ = 0;
};

}  // namespace taut::cli
