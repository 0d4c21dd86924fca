#pragma once

#include <cstdint>
#include <functional>
#include <optional>

#include "common/time.hpp"
#include "server/coordinator/registry.hpp"
#include "server/coordinator/runs/notes.hpp"
#include "server/coordinator/store/job_record.hpp"

/// Which servers keep the images of a job's shards, and when that changes. A shard is meant by its
/// number.
namespace taut::placement {

using BackupPredicate = std::function<bool(const pb::StoredBackup&)>;

/// How many backups a shard should have.
[[nodiscard]] int wanted_backups(const pb::StoredJob& stored);
/// Whether all backups that a shard has are whole.
[[nodiscard]] bool is_all_whole(const JobRecord& job, int number);
/// The least loaded host on a server that does not have the shard yet. A machine that has none of
/// it is preferred, unless its host would have twice as much to do. nullopt: no other server can
/// keep the shard's images.
[[nodiscard]] std::optional<std::uint32_t> choose_backup(const JobRecord& job,
                                                         const Registry& registry, int number);
void add_backup(JobRecord& job, int number, std::uint32_t host);
/// Removes a shard's backups for which this holds. Returns whether there were any.
bool remove_backups(JobRecord& job, int number, const BackupPredicate& goes);
/// Chooses backups for a shard that has too few. Those of servers that leave stay until the others
/// are whole, if they are whole themselves. Returns whether anything changed.
bool give_backups(JobRecord& job, const Registry& registry, int number);
/// A shard whose backup cannot be brought up to date gets another one. Returns whether one does.
bool give_up_backups(JobRecord& job, TimePoint now, Notes& notes);
/// Where shards were to move elsewhere: of a shard that has more backups than it should, one that
/// shares a machine with another one, or else the one that has the most to do, keeps no more
/// images. Returns whether anything changed.
bool remove_extra_backups(JobRecord& job, const Registry& registry);
/// A backup that shares a machine with another host of its shard is replaced by one on another
/// machine, once there is one: that is added first. Returns whether one is.
bool spread_backups(JobRecord& job, const Registry& registry);

}  // namespace taut::placement
