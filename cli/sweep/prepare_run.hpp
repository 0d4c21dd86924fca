#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <utility>
#include <vector>

#include "cli/sweep/sweep_plan.hpp"

namespace taut::cli {

/// What is the same for every run of this process: versions, and the machine.
[[nodiscard]] std::vector<std::pair<std::string, std::string>> describe_host();

/// The runs at the same time, and the cores that they share.
struct Company {
  std::uint32_t runs = 1;     // at most; 1: a run has the machine to itself
  std::uint32_t threads = 0;  // compute threads of one
  std::uint32_t cores = 0;    // of the machine

  [[nodiscard]] bool shares_cores() const { return runs > 1 && runs * threads > cores; }
};

/// Creates a run's folder with job.textproto, the job as resolved, the lab's cluster.textproto if
/// it runs there, and run.json: the point, the job's SHA-256, versions, host, the machine's load.
/// Errors    io
[[nodiscard]] Result<void> prepare_run(const std::filesystem::path& folder, const SweepRun& run,
                                       const Company& company);

/// What prepare_run() recorded of a run's company.
[[nodiscard]] Company company_of(const std::filesystem::path& folder);

/// Whether the folder holds a finished run of exactly this job, on this cluster.
[[nodiscard]] bool is_done(const std::filesystem::path& folder, const SweepRun& run);

/// Why a run failed, from its command's log: the last message, on one line.
[[nodiscard]] std::string failure_in(const std::filesystem::path& log);

}  // namespace taut::cli
