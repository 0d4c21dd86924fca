#pragma once

#include <filesystem>
#include <string>
#include <utility>
#include <vector>

#include "cli/sweep/sweep_plan.hpp"

namespace taut::cli {

/// What is the same for every run of this process: versions, and the machine.
[[nodiscard]] std::vector<std::pair<std::string, std::string>> describe_host();

/// Makes a run's folder with job.textproto, the job as resolved, and run.json: the point, versions,
/// host, how busy the machine is.
/// Errors    io
[[nodiscard]] Result<void> prepare_run(const std::filesystem::path& folder, const SweepRun& run);

/// Whether the folder holds a finished run of exactly this job.
[[nodiscard]] bool is_done(const std::filesystem::path& folder, const SweepRun& run);

/// Why a run failed, from the log of its `tautline train`: its last message, on one line.
[[nodiscard]] std::string failure_in(const std::filesystem::path& log);

}  // namespace taut::cli
