#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "cli/sweep/run_result.hpp"
#include "cli/sweep/statistics.hpp"
#include "cli/sweep/sweep_plan.hpp"

namespace taut::cli {

/// Why a run that was never started has no result.
inline constexpr const char* kNotRun = "not run yet";

/// A run as it ended: with a result, or a reason why it has none.
struct SweepOutcome {
  SweepRun run;
  std::optional<RunResult> result;
  std::string failure;
};

/// A point over its seeds.
struct PointFigures {
  SweepPoint point;
  std::vector<RunResult> runs;            // those with a result
  std::vector<double> seconds_to_target;  // of those that reached it
  std::vector<double> clocks_to_target;
  Spread accuracy;  // final
  Spread images_per_second;
  Spread wait_share;
  Spread staleness;
  Spread to_target_s;
  Spread to_target_clocks;

  [[nodiscard]] bool always_reached() const {
    return !runs.empty() && seconds_to_target.size() == runs.size();
  }
};

/// The test accuracy whose time is compared: the given one, or the highest that every run reached,
/// rounded down to half a percent.
[[nodiscard]] double target_of(std::optional<double> given,
                               const std::vector<SweepOutcome>& outcomes);

/// One entry for each point, in the plan's order.
[[nodiscard]] std::vector<PointFigures> figures_of(const SweepPlan& plan,
                                                   const std::vector<SweepOutcome>& outcomes,
                                                   double target);

/// The unit of the points' throughput, e.g. "images/s".
[[nodiscard]] std::string rate_of(const std::vector<PointFigures>& points);

/// In one sentence for the points of one group: which bound reached the target soonest, by how
/// much, and whether that is beyond the noise: Welch's t-test between it and each other bound, at
/// 5 %, Holm's correction for their number.
[[nodiscard]] std::string verdict(const std::vector<PointFigures>& points, double target);

}  // namespace taut::cli
