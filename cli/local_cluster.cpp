#include "cli/local_cluster.hpp"

#include <fmt/format.h>

#include <utility>

#include "common/http/login.hpp"
#include "common/keys/http_secret.hpp"
#include "common/keys/key_folder.hpp"
#include "common/unix_time.hpp"

namespace taut::cli {
namespace {

// A process that hangs is noticed after this time.
constexpr double kHeartbeatLimit_s = 5;

/// What every process of a local cluster has in common. Heartbeats are as frequent as the progress
/// display is drawn.
pb::ClusterConfig common_config(const std::string& coordinator,
                                const LocalClusterOptions& options) {
  pb::ClusterConfig config;
  config.set_coordinator_address(coordinator);
  config.set_heartbeat_interval_s(0.2);
  if (options.data_security != pb::ClusterConfig::CURVE) {
    config.set_data_security(options.data_security);
  }
  if (options.io_threads > 0) config.set_io_threads(options.io_threads);
  *config.mutable_records() = options.records;
  config.mutable_records()->set_folder(options.folder.string());
  return config;
}

}  // namespace

Result<void> LocalCluster::start_servers(const LocalClusterOptions& options) {
  const bool survives = options.servers > 1;
  const auto start = [&](const std::string& name, std::uint32_t shards) -> Result<void> {
    // The first one hosts the coordinator and prints its address for the others.
    const bool is_first = coordinator_.empty();
    pb::ClusterConfig config = common_config(is_first ? "127.0.0.1:0" : coordinator_, options);
    config.mutable_server()->set_name(name);
    config.mutable_server()->set_shards(shards);
    if (options.transport != pb::ServerConfig::ZEROMQ) {
      config.mutable_server()->set_transport(options.transport);
    }
    if (is_first) {
      pb::CoordinatorConfig& coordinator = *config.mutable_server()->mutable_coordinator();
      if (survives) {
        coordinator.set_heartbeat_limit_s(kHeartbeatLimit_s);
      } else {
        // All workers are started here: if all are lost, none will join.
        coordinator.set_worker_wait_s(0);
      }
      // The run's folder has everything, and the coordinator ends with the run.
      coordinator.set_state_folder("");
      coordinator.set_run_folder("");
      if (!options.dashboard.empty()) config.mutable_http()->set_dashboard(options.dashboard);
    }
    TAUT_TRY(daemons_.start({.name = name,
                             .role = KeyRole::kServer,
                             .config = std::move(config),
                             .replaceable = survives && !is_first}));
    if (!is_first) return ok();
    TAUT_TRY(const std::string ready, daemons_.await_ready(name));
    coordinator_ = address_in(ready, "coordinator");
    dashboard_ = address_in(ready, "http");
    if (!coordinator_.empty()) return ok();
    return invalid(fmt::format("{}: its ready file names no coordinator", name));
  };
  if (survives) {
    TAUT_TRY(start("coordinator", 0));
  }
  for (std::uint32_t i = 0; i < options.servers; ++i) {
    TAUT_TRY(start(fmt::format("server{}", i), options.shards));
  }
  return ok();
}

Result<void> LocalCluster::start_workers(const LocalClusterOptions& options) {
  for (std::uint32_t i = 0; i < options.workers; ++i) {
    pb::ClusterConfig config = common_config(coordinator_, options);
    const std::string name = fmt::format("worker{}", i);
    pb::WorkerConfig& worker = *config.mutable_worker();
    worker.set_name(name);
    worker.set_device(options.device);
    worker.set_threads(options.threads);
    worker.set_device_memory_budget(options.device_memory_budget);
    worker.set_overlap(options.overlap);
    if (!options.pins.empty()) worker.set_pin(options.pins[i]);
    if (!options.device_indices.empty()) {
      const auto& devices = options.device_indices[i % options.device_indices.size()];
      worker.mutable_device_index()->Add(devices.begin(), devices.end());
    }
    TAUT_TRY(daemons_.start({.name = name,
                             .role = KeyRole::kWorker,
                             .config = std::move(config),
                             .replaceable = options.servers > 1}));
  }
  return ok();
}

Result<LocalCluster> LocalCluster::start(const LocalClusterOptions& options) {
  LocalCluster cluster;
  if (!options.insecure) {
    TAUT_TRY(cluster.keys_, RunKeys::make(options.folder / "keys"));
  }
  DaemonGroup::Options daemons{.folder = options.folder, .keys = cluster.keys()};
  if (options.servers == 1) {
    daemons.if_lost = "with two servers or more (--servers 2) it is started again";
  }
  cluster.daemons_ = DaemonGroup(std::move(daemons));
  TAUT_TRY(cluster.start_servers(options));
  TAUT_TRY(cluster.start_workers(options));
  return cluster;
}

Result<Security> LocalCluster::user_security() const {
  if (!keys_) return Security::insecure();
  return taut::user_security(keys_->folder());
}

Result<std::string> LocalCluster::dashboard_link() const {
  std::string link = fmt::format("http://{}", dashboard_);
  if (!keys_) return link + "/";
  TAUT_TRY(const std::string secret, ensure_http_secret(keys_->folder()));
  return link + http::login_path(secret, unix_time_s());
}

}  // namespace taut::cli
