#include "cli/node/node_share.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

namespace taut::cli {

NodeShare share_of(const NodeOptions& options, const NodePlace& place, std::uint32_t devices) {
  NodeShare share;
  share.servers = options.servers_per_node;
  if (options.device != pb::WorkerConfig::CPU) {
    for (std::uint32_t i = place.local_rank; i < devices; i += place.local_count) {
      share.devices.push_back(i);
    }
  }
  const auto usual = std::max<std::uint32_t>(1, static_cast<std::uint32_t>(share.devices.size()));
  share.workers = options.workers_per_node.value_or(usual);
  return share;
}

pb::ClusterConfig common_config(const NodeOptions& options, const std::string& coordinator,
                                const std::string& folder) {
  pb::ClusterConfig config;
  config.set_coordinator_address(coordinator);
  config.set_start_wait_s(options.wait_s);
  if (options.data_security != pb::ClusterConfig::CURVE) {
    config.set_data_security(options.data_security);
  }
  config.mutable_records()->set_folder(folder);
  return config;
}

Result<void> start_share(const NodeShare& share, const NodeOptions& options, std::uint32_t rank,
                         const std::string& address, const pb::ClusterConfig& common,
                         DaemonGroup& daemons) {
  for (std::uint32_t i = 0; i < share.servers; ++i) {
    DaemonGroup::Daemon daemon{.name = fmt::format("node{}-server{}", rank, i),
                               .role = KeyRole::kServer,
                               .config = common,
                               .replaceable = true};
    pb::ServerConfig& server = *daemon.config.mutable_server();
    server.set_name(daemon.name);
    server.set_listen(address);
    server.set_shards(options.shards);
    TAUT_TRY(daemons.start(std::move(daemon)));
  }
  for (std::uint32_t i = 0; i < share.workers; ++i) {
    DaemonGroup::Daemon daemon{.name = fmt::format("node{}-worker{}", rank, i),
                               .role = KeyRole::kWorker,
                               .config = common,
                               .replaceable = true};
    pb::WorkerConfig& worker = *daemon.config.mutable_worker();
    worker.set_name(daemon.name);
    worker.set_device(options.device);
    worker.set_threads(options.threads);
    worker.set_device_memory_budget(options.device_memory_budget);
    if (!share.devices.empty()) worker.add_device_index(share.devices[i % share.devices.size()]);
    if (!options.rack.empty()) daemon.options = {"--rack", options.rack};
    TAUT_TRY(daemons.start(std::move(daemon)));
  }
  return ok();
}

}  // namespace taut::cli
