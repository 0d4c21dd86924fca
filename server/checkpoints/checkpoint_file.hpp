#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "common/result.hpp"
#include "proto/checkpoint.pb.h"
#include "server/replication/slice_image.hpp"

namespace taut::server {

/// A file of a checkpoint while it is written. Destroyed without `commit`, it leaves no file.
/// Thread    one at a time
class CheckpointOutput {
 public:
  virtual ~CheckpointOutput() = default;
  /// Errors    io, with the file and the system's message; those of other servers
  [[nodiscard]] virtual Result<void> append(std::span<const std::byte> bytes) = 0;
  /// Returns when the file is on disk. REQUIRES: as many bytes were appended as announced.
  [[nodiscard]] virtual Result<pb::CheckpointFile> commit() = 0;
};

/// Starts a file of `bytes` bytes.
using MakeOutput = std::function<Result<std::unique_ptr<CheckpointOutput>>(const std::string& name,
                                                                           std::uint64_t bytes)>;

/// Makes files in an existing folder: each is written to a temporary file, flushed and renamed, and
/// the folder is flushed.
[[nodiscard]] MakeOutput whole_files(const std::string& folder);

/// Writes a shard's part of a checkpoint: one file, or, if the order is incremental, one with the
/// slices that have changed and one with those that are likely not to change again and are in no
/// file that can be linked. Memory of a slice is freed once it is written.
/// make      starts each file
/// stop      ends it early, between two slices, as the capture's `withdrawn` does; a file that is
///           not complete does not remain
/// Returns   the files, and those of earlier checkpoints that were linked
/// Errors    those of `make`; closed: it was stopped or withdrawn; invalid: values that are not
///           finite
[[nodiscard]] Result<std::vector<pb::CheckpointFile>> write_shard_files(
    ShardCapture capture, const MakeOutput& make, const std::atomic<bool>& stop);

/// Overload for whole files in the order's folder, which is created if it is missing. If the order
/// is withdrawn meanwhile, the folder is removed.
/// Errors    io
[[nodiscard]] Result<std::vector<pb::CheckpointFile>> write_shard_files(
    ShardCapture capture, const std::atomic<bool>& stop);

}  // namespace taut::server
