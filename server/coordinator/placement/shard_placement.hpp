#pragma once

#include <cstdint>
#include <string>

#include "server/coordinator/checkpoints/checkpoint_task.hpp"
#include "server/coordinator/registry.hpp"
#include "server/coordinator/runs/notes.hpp"
#include "server/coordinator/store/job_record.hpp"

namespace taut {

/// Which host of a job serves which shard, and which ones keep its images.
///
/// A job that starts on two or more servers is replicated: shard i is served by host i, and each
/// has backups on other servers, chosen so that all keep about the same number. When a server is
/// lost, a backup of each of its shards takes the shard over, and the other backups remain; a shard
/// whose backup was lost, or cannot be brought up to date, gets another one. A server that leaves
/// hands its shards over in the same way, once their backups are whole, and one that joins gets
/// shards from those that have the most.

struct Replication {
  std::uint32_t interval = 0;  // rises of V between two images of a slice; 0: no shard has a backup
  std::uint32_t copies = 1;    // backups of each shard, if there are enough servers
};

/// Gives each shard its first host and backups. REQUIRES: the job's servers are chosen.
void place_shards(JobRecord& job, const Registry& registry, const Replication& replication);

/// Handles servers that were lost, leave or have joined: moves shards to their backups, and chooses
/// new backups. A move withdraws a join, a change of mode or a checkpoint that is being prepared;
/// it begins again later.
/// Returns why the job cannot continue; empty if it can.
[[nodiscard]] std::string replace_servers(JobRecord& job, const Registry& registry, TimePoint now,
                                          CheckpointTasks& tasks, Notes& notes);

/// Whether a server of the job, by its index, serves a shard or keeps its images.
[[nodiscard]] bool has_shards(const JobRecord& job, int server);
/// Why a server's shards cannot move to others; empty if they can, or if it has none.
[[nodiscard]] std::string why_not_movable(const JobRecord& job, int server,
                                          const Registry& registry);

/// Whether a shard that was taken over still waits for members to repeat what they had sent:
/// changes of members and modes must wait too.
[[nodiscard]] bool is_settling(const JobRecord& job);

}  // namespace taut
