#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "proto/control.pb.h"
#include "server/coordinator/store/job_record.hpp"

namespace taut {

/// Each shard's server and backups; empty if shards have no backups.
[[nodiscard]] std::vector<pb::ShardStatus> shard_status(const JobRecord& job);
/// How many shards a started job has, and why they have no backups; nullopt if they have some.
[[nodiscard]] std::optional<pb::NoBackups> no_backups(const JobRecord& job);
/// Adds to a status that lists the job's shards how far each backup lags, as the primaries report.
/// loads  the newest ones of each server, by its name
void add_backup_lags(const JobRecord& job,
                     const std::map<std::string, std::vector<pb::ShardLoad>>& loads,
                     pb::JobStatus& status);

}  // namespace taut
