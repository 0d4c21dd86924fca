#include "proto/state_word.hpp"

#include <algorithm>
#include <limits>

namespace taut {

const char* state_word(pb::JobState state) {
  switch (state) {
    case pb::SUBMITTED:
      return "submitted";
    case pb::RUNNING:
      return "running";
    case pb::DONE:
      return "done";
    case pb::FAILED:
      return "failed";
    default:
      return "stopped";
  }
}

const char* state_word(pb::ProcessState state) {
  switch (state) {
    case pb::PROCESS_LIVE:
      return "live";
    case pb::PROCESS_IDLE:
      return "idle";
    case pb::PROCESS_RUNNING:
      return "running";
    case pb::PROCESS_FINISHED:
      return "finished";
    case pb::PROCESS_LOST:
      return "lost";
    default:
      return "unknown";
  }
}

const char* state_word(const pb::ServerStatus& server) {
  if (server.state() == pb::PROCESS_LOST || !server.leaves()) return state_word(server.state());
  return server.is_drained() ? "drained" : "leaving";
}

const char* state_word(const pb::WorkerStatus& worker) {
  if (worker.state() == pb::PROCESS_LOST) return worker.progress().left() ? "left" : "lost";
  if (!worker.leaves()) return state_word(worker.state());
  return worker.is_drained() ? "drained" : "leaving";
}

int unprotected_shards(const pb::JobStatus& job) {
  const auto whole = std::ranges::count_if(job.shards(), &pb::ShardStatus::is_protected);
  return job.shards_size() - static_cast<int>(whole) + static_cast<int>(job.no_backups().shards());
}

int whole_backups(const pb::ShardStatus& shard) {
  return static_cast<int>(std::ranges::count_if(shard.backups(), &pb::BackupStatus::is_whole));
}

int fewest_whole_backups(const pb::JobStatus& job) {
  if (job.shards().empty()) return 0;
  int fewest = std::numeric_limits<int>::max();
  for (const pb::ShardStatus& shard : job.shards()) {
    fewest = std::min(fewest, whole_backups(shard));
  }
  return fewest;
}

int required_backups(const pb::JobStatus& job) {
  if (job.shards().empty()) return 0;
  return static_cast<int>(std::max(job.shards(0).wanted_backups(), 1U));
}

std::optional<FurthestBehind> furthest_behind(const pb::ShardStatus& shard) {
  std::optional<FurthestBehind> furthest;
  for (const pb::BackupStatus& backup : shard.backups()) {
    if (!backup.is_whole() || !backup.has_behind_s()) continue;
    if (!furthest) furthest.emplace();
    furthest->seconds = std::max(furthest->seconds, backup.behind_s());
    furthest->clocks = std::max(furthest->clocks, backup.behind_clocks());
  }
  return furthest;
}

std::optional<FurthestBehind> furthest_behind(const pb::JobStatus& job) {
  std::optional<FurthestBehind> furthest;
  for (const pb::ShardStatus& shard : job.shards()) {
    const std::optional<FurthestBehind> one = furthest_behind(shard);
    if (!one) continue;
    if (!furthest) furthest.emplace();
    furthest->seconds = std::max(furthest->seconds, one->seconds);
    furthest->clocks = std::max(furthest->clocks, one->clocks);
  }
  return furthest;
}

}  // namespace taut
