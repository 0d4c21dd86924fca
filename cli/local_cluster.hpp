#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "cli/child_process.hpp"
#include "cli/daemon_group.hpp"
#include "common/keys/run_keys.hpp"
#include "common/net/security.hpp"
#include "common/result.hpp"
#include "common/time.hpp"
#include "proto/cluster.pb.h"

namespace taut::cli {

struct LocalClusterOptions {
  std::uint32_t servers = 1;
  std::uint32_t shards = 1;  // of each server
  std::uint32_t workers = 2;
  pb::WorkerConfig::Device device = pb::WorkerConfig::AUTO;
  std::uint32_t threads = 1;               // compute threads of each worker
  std::uint64_t device_memory_budget = 0;  // bytes for each worker; 0: what the device has
  bool overlap = true;                     // as WorkerConfig's
  std::vector<std::string> pins;           // processors of each worker; empty: any
  // CUDA devices of each worker; with more workers than entries, in turn; empty: the first one
  std::vector<std::vector<std::uint32_t>> device_indices;
  std::string dashboard;         // "host:port" of the page; empty: none
  pb::RecordsConfig records;     // what the processes record, in `folder`
  std::filesystem::path folder;  // receives every process's config and log
  bool insecure = false;         // no keys; to measure what they cost
  pb::ClusterConfig::DataSecurity data_security = pb::ClusterConfig::CURVE;
  std::uint32_t io_threads = 0;  // as ClusterConfig's
  pb::ServerConfig::Transport transport = pb::ServerConfig::ZEROMQ;
};

/// Servers and workers on this machine's loopback, each a process on ports that the system
/// chooses. None of them outlives this process. Thread: the one that started it.
///
/// With one server, losing it loses the job. With several, the coordinator has its own process, the
/// job survives a server's death, and each server or worker that dies is restarted.
class LocalCluster {
 public:
  /// Starts every process; returns once the coordinator listens. The workers may still be joining.
  /// Errors    a program is missing; a process ended or was not ready in time; interrupted
  [[nodiscard]] static Result<LocalCluster> start(const LocalClusterOptions& options);

  /// Where the coordinator listens.
  [[nodiscard]] const std::string& coordinator() const { return coordinator_; }
  /// A command's credentials for this cluster.
  [[nodiscard]] Result<Security> user_security() const;
  /// The folder of the processes' keys; empty if it has none.
  [[nodiscard]] std::filesystem::path keys() const {
    return keys_ ? keys_->folder() : std::filesystem::path();
  }
  /// Where the dashboard is served; empty if it is not.
  [[nodiscard]] const std::string& dashboard() const { return dashboard_; }
  /// A link for a browser that logs in to the dashboard, once and within some minutes.
  [[nodiscard]] Result<std::string> dashboard_link() const;
  [[nodiscard]] std::vector<ChildProcess>& children() { return daemons_.children(); }

  /// Restarts processes that have ended, if the job survives that.
  /// Errors    unavailable: a process ended; says which, how, and the last lines of its log
  [[nodiscard]] Result<void> check() { return daemons_.check(); }
  /// How the processes ended that were started again: "server1 was killed by signal 9 (Killed)".
  [[nodiscard]] const std::vector<std::string>& replaced() const { return daemons_.replaced(); }

  /// Ends every process within `grace`. Returns the names of those that had to be killed.
  std::vector<std::string> stop(Duration grace) { return daemons_.stop(grace); }

 private:
  LocalCluster() = default;
  [[nodiscard]] Result<void> start_servers(const LocalClusterOptions& options);
  [[nodiscard]] Result<void> start_workers(const LocalClusterOptions& options);

  std::optional<RunKeys> keys_;  // removed after the daemons have ended
  DaemonGroup daemons_;
  std::string coordinator_;
  std::string dashboard_;
};

}  // namespace taut::cli
