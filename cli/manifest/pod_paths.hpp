#pragma once

#include <string>
#include <vector>

#include "cli/manifest/manifest.hpp"
#include "common/result.hpp"
#include "proto/job.pb.h"

namespace taut::cli {

/// The folders in which pods open what a job names: those that are mounted, and without a claim for
/// the data the job's own data folders, which are in the image.
/// job     after settle_in_pods()
/// Errors  those of the job's data
[[nodiscard]] Result<std::vector<std::string>> pod_folders(const ManifestOptions& options,
                                                           const pb::Job& job);

/// A line for each file or folder that the job names outside of pod_folders(): no pod opens it.
/// Errors  those of pod_folders()
[[nodiscard]] Result<std::vector<std::string>> closed_paths(const ManifestOptions& options,
                                                            const pb::Job& job);

}  // namespace taut::cli
