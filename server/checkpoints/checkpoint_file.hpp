#pragma once

#include <atomic>
#include <cstddef>
#include <vector>

#include "common/result.hpp"
#include "proto/control.pb.h"
#include "server/replication/slice_image.hpp"

namespace taut::server {

/// Writes a shard's part of a checkpoint into the order's folder, which is created if it is
/// missing: to a temporary file, flushed, renamed, the folder flushed. Memory of a slice is freed
/// once it is written.
/// stop      ends it early, between two slices; no file remains then
/// Errors    io: with the file and the system's message; closed: it was stopped
[[nodiscard]] Result<pb::CheckpointFile> write_shard_file(ShardCapture capture,
                                                          const std::atomic<bool>& stop);

/// Reads the initial state of a server's slices from the checkpoint that the job resumes, after all
/// its bytes are checked. Slices may have been cut or distributed differently.
/// shards    the number of this server's
/// returns   for each of them, in order
/// Errors    as CheckpointReader::open_to_resume; mismatch: the update rule's state differs from
///           that of the rule that wrote it; io. Throws std::bad_alloc.
[[nodiscard]] Result<std::vector<ShardImages>> read_shard_images(const pb::ServerJob& job,
                                                                 std::size_t shards);

}  // namespace taut::server
