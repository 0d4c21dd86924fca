#pragma once

#include <atomic>
#include <cstddef>
#include <vector>

#include "common/result.hpp"
#include "proto/control.pb.h"
#include "server/slice_image.hpp"

namespace taut::server {

/// Writes a shard's part of a checkpoint into the order's folder, which is made where it is not
/// there: aside, flushed, renamed, the folder flushed. Memory of a slice is let go once it is
/// written.
/// stop      ends it early, between two slices; nothing is left of the file then
/// Errors    io: with the file, and what the system said; closed: it was stopped
[[nodiscard]] Result<pb::CheckpointFile> write_shard_file(ShardCapture capture,
                                                          const std::atomic<bool>& stop);

/// Reads what the slices of a server's shards begin with, from the checkpoint that the job resumes,
/// every byte of which is checked first. Slices may have been cut or spread in another way.
/// shards    how many this server has
/// returns   for each of them, in order
/// Errors    as CheckpointReader::open_to_resume; mismatch: the update rule keeps other numbers
///           than the one that wrote it; io. Throws std::bad_alloc.
[[nodiscard]] Result<std::vector<ShardImages>> read_shard_images(const pb::ServerJob& job,
                                                                 std::size_t shards);

}  // namespace taut::server
