#include "server/coordinator/coordinator_config.hpp"

namespace taut {

CoordinatorOptions coordinator_options(const pb::CoordinatorConfig& config) {
  CoordinatorOptions options;
  options.heartbeat_limit = from_seconds(config.heartbeat_limit_s());
  options.replication_interval = config.replication().interval();
  options.replication_copies = config.replication().copies();
  options.backup_limit = from_seconds(config.replication().limit_s());
  options.logs_updates = config.replication().durability() == pb::ReplicationConfig::SYNC;
  options.kept_bytes = config.replication().memory();
  options.worker_wait = from_seconds(config.worker_wait_s());
  options.scheduling = config.scheduling();
  return options;
}

}  // namespace taut
