#pragma once

#include <filesystem>
#include <string>

#include "common/result.hpp"
#include "proto/job.pb.h"

namespace taut::cli {

/// Writes run.json (how the run was started); a sweep has already written it.
/// kind    "train" or "lab"
/// Errors  io
[[nodiscard]] Result<void> write_origin(const pb::Job& job, const std::string& kind,
                                        const std::filesystem::path& folder);

/// Writes the vocabularies of the job's texts into the run's folder.
/// Errors  io; those of the texts
[[nodiscard]] Result<void> write_vocabularies(const pb::Job& job,
                                              const std::filesystem::path& folder);

}  // namespace taut::cli
