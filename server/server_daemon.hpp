#pragma once

#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "common/http/server.hpp"
#include "common/net/zmq/zmq_endpoint.hpp"
#include "common/result.hpp"
#include "proto/cluster.pb.h"
#include "proto/config/cluster_security.hpp"
#include "proto/node_check/node_examiner.hpp"
#include "proto/session/control_link.hpp"
#include "proto/session/record_sender.hpp"
#include "server/checkpoints/checkpoint_thread.hpp"
#include "server/coordinator/coordinator_thread.hpp"
#include "server/dashboard/dashboard.hpp"
#include "server/parts/part_client.hpp"
#include "server/parts/part_store.hpp"
#include "server/parts/part_thread.hpp"
#include "server/server_jobs.hpp"
#include "server/shard_thread.hpp"
#include "server/tables/weights_source.hpp"

namespace taut::server {

/// A server process: its shards, its connection to the coordinator, and the coordinator itself if
/// the config says so. Without shards it hosts only the coordinator.
/// Thread    main
class ServerDaemon {
 public:
  /// Binds everything and starts the threads.
  /// Errors    exists: a port is in use, and the setting that changes it; invalid: an address that
  ///           must not or cannot be bound, or no key to listen with
  [[nodiscard]] static Result<std::unique_ptr<ServerDaemon>> start(const pb::ClusterConfig& config);

  ~ServerDaemon();
  ServerDaemon(const ServerDaemon&) = delete;
  ServerDaemon& operator=(const ServerDaemon&) = delete;

  /// Serves until a stop signal arrives.
  /// Errors    timeout: no coordinator answered the first hello; unavailable: it refused this
  ///           server; io: the coordinator stepped down, and there are no shards to continue for
  [[nodiscard]] Result<void> run();

  /// The coordinator's address: as bound if this process hosts it, otherwise as configured.
  [[nodiscard]] const std::string& coordinator_address() const { return coordinator_address_; }
  [[nodiscard]] std::vector<std::string> shard_addresses() const;
  /// The HTTP address as bound; empty if it does not serve HTTP.
  [[nodiscard]] std::string http_address() const;
  /// The link by which a browser opens the page. It logs the browser in, once and for a few
  /// minutes.
  /// REQUIRES: the page is served.
  [[nodiscard]] Result<std::string> page_link() const;

 private:
  ServerDaemon(const pb::ClusterConfig& config, Security security)
      : config_(config),
        context_(std::move(security), io_threads(config)),
        part_store_(config.server().part_folder(), config.server().name()),
        jobs_(config.server().shards()),
        records_(config.log().file()) {}
  [[nodiscard]] Result<void> start_coordinator();
  [[nodiscard]] Result<void> start_shards();
  [[nodiscard]] Result<void> join_coordinator();
  [[nodiscard]] Result<void> watch_coordinator();
  [[nodiscard]] std::shared_ptr<CoordinatorThread> coordinator() const;
  [[nodiscard]] Result<pb::ControlMessage> ask_coordinator(const pb::ControlMessage& message);
  [[nodiscard]] Result<void> handle(const ControlEvent& event);
  void take_job(const pb::ServerJob& job);
  void begin_loaded_jobs();
  void start_checkpoints();
  [[nodiscard]] Result<void> start_http();
  [[nodiscard]] dashboard::ServerFigures figures() const;
  void send_reports();
  [[nodiscard]] bool must_end();

  const pb::ClusterConfig config_;
  ZmqContext context_;
  std::string coordinator_address_;
  mutable std::mutex mutex_;  // guards coordinator_, jobs_ and loaded_
  std::shared_ptr<CoordinatorThread> coordinator_;
  TimePoint next_coordinator_start_;
  PartStore part_store_;
  ServerJobs jobs_;
  // The initial state of resumed jobs, as read.
  std::vector<std::pair<pb::ServerJob, Result<std::vector<ShardImages>>>> loaded_;
  // Resumed jobs: the newest view until their checkpoint is read, nullptr afterwards.
  std::map<std::uint64_t, std::shared_ptr<const JobView>> resuming_;
  RecordSender records_;
  std::unique_ptr<ControlLink> link_;  // nullptr without shards
  FileWeights initial_values_;
  std::shared_ptr<TableMemory> table_memory_;
  std::unique_ptr<PartClient> part_client_;
  std::unique_ptr<CheckpointThread> checkpoints_;  // shards hand it what they capture
  std::unique_ptr<PartThread> part_thread_;        // answers others' requests to part_store_
  std::vector<std::unique_ptr<ShardThread>> shards_;
  std::unique_ptr<NodeExaminer> examiner_;  // nullptr without shards
  pb::Heartbeat heartbeat_;                 // the content of the next one
  TimePoint next_loads_;
  bool is_drained_ = false;
  std::optional<TimePoint> leaves_by_;  // after a signal: the process ends by then, drained or not
  // Last: their threads use the members above.
  std::unique_ptr<dashboard::Dashboard> dashboard_;
  std::unique_ptr<http::Server> metrics_;
};

}  // namespace taut::server
