#pragma once

#include <atomic>
#include <cstddef>
#include <functional>
#include <vector>

#include "common/result.hpp"
#include "proto/control.pb.h"
#include "proto/formats/checkpoint_reader.hpp"
#include "server/replication/slice_image.hpp"
#include "server/tables/table_memory.hpp"

namespace taut::server {

/// Opens the checkpoint that a job resumes, after checking all its bytes.
using OpenSaved = std::function<Result<CheckpointReader>(const pb::ServerJob& job)>;

/// Reads the initial state of a server's slices from the checkpoint that the job resumes. Slices
/// may have been cut or distributed differently.
/// shards    how many this server has
/// memory    the limit on tables, so that none is read that has no room; nullptr: no limit
/// stop      ends it early, between two slices; may be nullptr
/// returns   for each of these shards, in order
/// Errors    those of `open`; mismatch: the update rule's state differs from that of the rule that
///           wrote it; invalid: a table that does not fit into the memory; closed: it was
///           stopped; io. Throws std::bad_alloc.
[[nodiscard]] Result<std::vector<ShardImages>> read_shard_images(
    const pb::ServerJob& job, std::size_t shards, const OpenSaved& open,
    const TableMemory* memory = nullptr, const std::atomic<bool>* stop = nullptr);
/// Overload for a checkpoint in a folder of this machine.
[[nodiscard]] Result<std::vector<ShardImages>> read_shard_images(const pb::ServerJob& job,
                                                                 std::size_t shards);

}  // namespace taut::server
