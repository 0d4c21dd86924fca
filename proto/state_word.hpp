#pragma once

#include <cstdint>
#include <optional>

#include "proto/control.pb.h"

namespace taut {

/// A job's state as users read it: "submitted", "running", "done", "failed", "stopped".
[[nodiscard]] const char* state_word(pb::JobState state);
/// In lower case, as the status and the dashboard show it.
[[nodiscard]] const char* state_word(pb::ProcessState state);
/// Overloads for a whole process: "leaving" and "drained" if it is to end, "left" if it has.
[[nodiscard]] const char* state_word(const pb::ServerStatus& server);
[[nodiscard]] const char* state_word(const pb::WorkerStatus& worker);

/// Shards of a job that are lost with their server: they have no whole backup.
[[nodiscard]] int unprotected_shards(const pb::JobStatus& job);
[[nodiscard]] int whole_backups(const pb::ShardStatus& shard);
/// Whole backups of the shard that has fewest: as many servers may be lost at the same time. 0
/// where shards have no backups.
[[nodiscard]] int fewest_whole_backups(const pb::JobStatus& job);
/// How many backups each shard should have. 0 where shards have no backups.
[[nodiscard]] int wanted_backups(const pb::JobStatus& job);

/// The most that any whole backup of a shard, or of any shard of a job, is behind its primary, in
/// either unit.
struct FurthestBehind {
  double seconds = 0;
  std::int64_t clocks = 0;
};
/// Nothing: no whole backup's lag is known.
[[nodiscard]] std::optional<FurthestBehind> furthest_behind(const pb::ShardStatus& shard);
[[nodiscard]] std::optional<FurthestBehind> furthest_behind(const pb::JobStatus& job);

}  // namespace taut
