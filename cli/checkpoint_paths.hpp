#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "common/result.hpp"
#include "proto/job.pb.h"

namespace taut::cli {

/// A path as other processes see it: relative paths are resolved against this command's working
/// folder.
[[nodiscard]] std::string absolute_path(const std::string& path);

/// Makes a job's checkpoint folder, or its solver's prefix, absolute; if it names neither, its
/// checkpoints go into `otherwise`. Also makes the checkpoint that it resumes absolute.
void settle_checkpoint_paths(const std::filesystem::path& otherwise, pb::Job& job);

/// Has a job saved once it has trained, as Caffe does, if it neither saves at intervals nor has
/// `snapshot_after_train: false`.
void settle_last_checkpoint(pb::Job& job);

/// Checks the checkpoint that a job resumes, if any. Returns warnings for the user.
/// Errors    as CheckpointReader::open(), with the previous checkpoint offered instead
[[nodiscard]] Result<std::vector<std::string>> check_resume(const pb::Job& job);

}  // namespace taut::cli
