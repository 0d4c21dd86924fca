#pragma once

#include <filesystem>
#include <string>

#include "common/result.hpp"

namespace taut::cli {

/// Where a run writes.
struct RunFolderOptions {
  std::filesystem::path requested;  // empty: a new one under `runs` in the working folder
  std::string job_name;
  bool force = false;          // the files of an earlier run are removed
  std::filesystem::path keep;  // checkpoints in this folder are not removed; empty: all are
};

/// Creates the folder that a run writes into: the requested one, or one under `runs` that is named
/// after the day, the job and the first free number.
/// Errors    io; exists: a run exists already, with a name that is free
[[nodiscard]] Result<std::filesystem::path> make_run_folder(const RunFolderOptions& options);

/// Whether the folder has the files of a run, finished or not.
[[nodiscard]] bool has_run(const std::filesystem::path& folder);

/// The path itself if it does not exist, else the path with the first of -2, -3, ... that is free.
[[nodiscard]] std::filesystem::path free_path(const std::filesystem::path& path);

}  // namespace taut::cli
