#pragma once

#include <filesystem>
#include <string>

#include "common/result.hpp"

namespace taut::cli {

/// Makes the folder that a run writes into: `requested`, or if that is empty a new one under `runs`
/// in the working folder, named by the day, the job and the first number that is free.
/// Errors    io
[[nodiscard]] Result<std::filesystem::path> make_run_folder(const std::filesystem::path& requested,
                                                            const std::string& job_name);

}  // namespace taut::cli
