#pragma once

#include <filesystem>
#include <string>

#include "common/result.hpp"
#include "proto/job.pb.h"

namespace taut::cli {

/// Writes what a run's folder says of its making, run.json; a sweep has said it already.
/// kind    "train" or "lab"
/// Errors  io
[[nodiscard]] Result<void> write_origin(const pb::Job& job, const std::string& kind,
                                        const std::filesystem::path& folder);

/// Writes what the numbers of the job's texts mean next to the run's results.
/// Errors  io; those of the texts
[[nodiscard]] Result<void> write_vocabularies(const pb::Job& job,
                                              const std::filesystem::path& folder);

}  // namespace taut::cli
