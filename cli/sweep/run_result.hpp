#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <string>

#include "cli/sweep/curve.hpp"
#include "cli/sweep/metric.hpp"
#include "cli/sweep/prepare_run.hpp"
#include "common/result.hpp"

namespace taut::cli {

/// The results in a finished run's folder. Time starts when the first worker opened the job; clocks
/// are the mean over the workers of those that they had finished by then.
struct RunResult {
  Curve test_by_time;  // the sweep's metric; seconds
  Curve test_by_clock;
  Curve loss_by_time;  // training loss, over all workers, in bins
  Curve loss_by_clock;
  double wall_s = 0;       // until the last worker's last clock
  double clocks = 0;       // of each worker
  double rate = 0;         // of all workers, in the job's unit
  double wait_share = 0;   // of the workers' time
  double final_value = 0;  // of the metric
  double best_value = 0;
  std::map<std::int64_t, std::uint64_t> staleness;  // reads
  double mean_staleness = 0;
  /// The share of wall_s in tests: other workers wait for the one that tests, or move ahead of it.
  /// nullopt if the run's records lack it.
  std::optional<double> test_share;
  Company company;  // runs at the same time
};

/// Reads the summary.json and each worker's metrics.csv and tests.csv in a run's folder.
/// Errors    not_found; invalid: a file of another kind, or a run without a test
[[nodiscard]] Result<RunResult> read_run(const std::filesystem::path& folder,
                                         const SweepMetric& metric = {});

}  // namespace taut::cli
