#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "proto/control.pb.h"
#include "server/coordinator/store/job_record.hpp"

namespace taut {

/// Each shard's server and backups; nothing where shards have no backups.
[[nodiscard]] std::vector<pb::ShardStatus> shard_status(const JobRecord& job);
/// How many shards a job has that has started, and why they have no backups; nothing where they
/// have some.
[[nodiscard]] std::optional<pb::NoBackups> no_backups(const JobRecord& job);
/// Adds how far each backup lags to a status with these shards, as the shards' primaries report it.
/// loads  of each server, by its name: the newest
void add_backup_lags(const JobRecord& job,
                     const std::map<std::string, std::vector<pb::ShardLoad>>& loads,
                     pb::JobStatus& status);

}  // namespace taut
