#pragma once

#include <cstdint>
#include <optional>

#include "proto/control.pb.h"

namespace taut {

/// A job's state as users read it: "submitted", "running", "done", "failed", "stopped".
[[nodiscard]] const char* state_word(pb::JobState state);
/// A process's state in lower case, as the status and the dashboard show it.
[[nodiscard]] const char* state_word(pb::ProcessState state);
/// Overloads for a whole process: "leaving" and "drained" if it must end, "left" if it has.
[[nodiscard]] const char* state_word(const pb::ServerStatus& server);
[[nodiscard]] const char* state_word(const pb::WorkerStatus& worker);

/// How many shards of a job would be lost with their server: they have no complete backup.
[[nodiscard]] int unprotected_shards(const pb::JobStatus& job);
[[nodiscard]] int whole_backups(const pb::ShardStatus& shard);
/// Complete backups of the shard that has the fewest: this many servers may be lost at the same
/// time. 0 if shards have no backups.
[[nodiscard]] int fewest_whole_backups(const pb::JobStatus& job);
/// How many backups each shard should have. 0 if shards have no backups.
[[nodiscard]] int required_backups(const pb::JobStatus& job);

/// How far the furthest-behind complete backup of a shard, or of any shard of a job, is behind its
/// primary, in each unit.
struct FurthestBehind {
  double seconds = 0;
  std::int64_t clocks = 0;
};
/// nullopt if no complete backup's lag is known.
[[nodiscard]] std::optional<FurthestBehind> furthest_behind(const pb::ShardStatus& shard);
[[nodiscard]] std::optional<FurthestBehind> furthest_behind(const pb::JobStatus& job);

}  // namespace taut
