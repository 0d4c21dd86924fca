#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "common/result.hpp"
#include "proto/job.pb.h"

namespace taut::cli {

/// A path as the other processes see it: relative ones count from where this command runs.
[[nodiscard]] std::string absolute_path(const std::string& path);

/// Makes a job's checkpoint folder, or its solver's prefix, absolute; where it names neither, its
/// checkpoints go into `otherwise`. The checkpoint that it resumes, too.
void settle_checkpoint_paths(const std::filesystem::path& otherwise, pb::Job& job);

/// Where a job neither saves at intervals nor says `snapshot_after_train: false`, it is saved once
/// it has trained, as Caffe does.
void settle_last_checkpoint(pb::Job& job);

/// Looks at the checkpoint that a job resumes; nothing where it resumes none. Returns what the user
/// should be warned of.
/// Errors    as CheckpointReader::open, with an offer of the one before it
[[nodiscard]] Result<std::vector<std::string>> check_resume(const pb::Job& job);

}  // namespace taut::cli
