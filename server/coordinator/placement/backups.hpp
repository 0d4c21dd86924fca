#pragma once

#include <cstdint>
#include <functional>
#include <optional>

#include "common/time.hpp"
#include "server/coordinator/registry.hpp"
#include "server/coordinator/runs/notes.hpp"
#include "server/coordinator/store/job_record.hpp"

/// Which servers keep the images of a job's shards, and when that changes. Shards are given by
/// their numbers.
namespace taut::placement {

using BackupPredicate = std::function<bool(const pb::StoredBackup&)>;

/// How many backups a shard should have.
[[nodiscard]] int required_backups(const pb::StoredJob& stored);
/// Whether all backups that a shard has are whole.
[[nodiscard]] bool is_all_whole(const JobRecord& job, int number);
/// The least loaded host on a server that does not have the shard yet. A machine that has no copy
/// of it is preferred, unless its host has more than twice the load. nullopt if no other server can
/// keep the shard's images.
[[nodiscard]] std::optional<std::uint32_t> choose_backup(const JobRecord& job,
                                                         const Registry& registry, int number);
void add_backup(JobRecord& job, int number, std::uint32_t host);
/// Removes a shard's backups for which `goes` is true. Returns whether there were any.
bool remove_backups(JobRecord& job, int number, const BackupPredicate& goes);
/// Chooses backups for a shard that has too few. Those on servers that leave stay until the others
/// are whole, if they are whole themselves. Returns whether anything changed.
bool give_backups(JobRecord& job, const Registry& registry, int number);
/// Removes backups that cannot be brought up to date: others are chosen. Returns whether any was.
bool give_up_backups(JobRecord& job, TimePoint now, Notes& notes);
/// Removes a backup of each shard that has more than it should, as when a shard was to move: one
/// that shares a machine with another host of the shard, or else the one with the highest load.
/// Returns whether anything changed.
bool remove_extra_backups(JobRecord& job, const Registry& registry);
/// Replaces a backup that shares a machine with another host of its shard, once another machine can
/// take it: the new backup is added first. Returns whether one was added.
bool spread_backups(JobRecord& job, const Registry& registry);

}  // namespace taut::placement
