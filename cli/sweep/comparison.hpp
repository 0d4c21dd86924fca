#pragma once

#include <cstdint>
#include <limits>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "cli/sweep/metric.hpp"
#include "cli/sweep/run_result.hpp"
#include "cli/sweep/statistics.hpp"
#include "cli/sweep/sweep_plan.hpp"

namespace taut::cli {

/// The reason for no result of a run that was never started.
inline constexpr const char* kNotRun = "not run yet";

/// The least number of seeds with which this many bounds are compared: with fewer, the test of
/// verdict() cannot distinguish any lead among them from chance, however large it is.
[[nodiscard]] std::size_t seeds_needed(std::size_t bounds);

/// The share of a run's time that tests may take for its times to count as the bound's own.
inline constexpr double kMaxTestShare = 0.1;

/// How a run ended: its result, or the reason why it has none.
struct SweepOutcome {
  SweepRun run;
  std::optional<RunResult> result;
  std::string failure;
};

/// Before anything has run: that a plan has too few seeds to compare its bounds, with the number
/// that suffices; empty if they suffice or there is nothing to compare.
[[nodiscard]] std::string too_few_seeds(const SweepPlan& plan, std::size_t seeds);

/// The value of the metric that runs must reach for their times to be compared.
struct SweepTarget {
  SweepMetric metric;
  double value = 0;
  bool is_fixed = false;  // by the user, before the runs
  bool is_late = false;   // by the user, after the runs

  /// "85.0 % test accuracy"
  [[nodiscard]] std::string text() const { return metric.text(value) + " " + metric.title(); }
};

/// Where a run reached the target.
struct TargetTime {
  double seconds = 0;
  double clocks = 0;
  std::size_t tests_around = 0;  // from the start to twice those clocks
};

/// A point over its seeds.
struct PointFigures {
  SweepPoint point;
  std::vector<RunResult> runs;            // those with a result
  std::vector<double> seconds_to_target;  // of those that reached it
  std::vector<double> clocks_to_target;
  std::map<std::uint64_t, std::optional<TargetTime>> by_seed;  // those with a result
  Spread final_value;                                          // of the metric
  Spread rate;
  Spread wait_share;
  Spread staleness;
  Spread test_share;  // of those whose records contain it
  Spread to_target_s;
  Spread to_target_clocks;

  [[nodiscard]] bool always_reached() const {
    return !runs.empty() && seconds_to_target.size() == runs.size();
  }
};

/// The target for the comparison: the given one, or the best value that every run reached, rounded
/// toward worse: accuracies to half a percent, others to two digits.
[[nodiscard]] SweepTarget target_of(const SweepMetric& metric, std::optional<double> given,
                                    const std::vector<SweepOutcome>& outcomes);

/// One entry for each point, in the plan's order.
[[nodiscard]] std::vector<PointFigures> figures_of(const SweepPlan& plan,
                                                   const std::vector<SweepOutcome>& outcomes,
                                                   const SweepTarget& target);

/// What distinguishes the points of a group: "bound" or "setting".
[[nodiscard]] std::string kind_of(const std::vector<PointFigures>& points);

/// The unit of the points' throughput, e.g. "images/s".
[[nodiscard]] std::string rate_of(const std::vector<PointFigures>& points);

/// The soonest point compared with another one, seed by seed.
struct PairedTest {
  std::string name;  // the other one
  std::size_t seeds = 0;
  double later_s = 0;  // the mean of the differences
  double p = 1;        // with Holm's correction
};

/// Which bound or setting of one group reached the target soonest, by how much, and whether that is
/// beyond the noise; or why the runs do not show it.
struct SweepVerdict {
  std::string text;
  bool is_given = false;          // false: the text says why not
  std::vector<PairedTest> tests;  // empty unless given
};

/// For the points of one group. They are compared if every run reached the target: paired over the
/// seeds, by the exact sign-flip test, at 5 % with Holm's correction over all pairs, because the
/// soonest one is chosen by the same times. Requires seeds_needed() seeds, in each run kTestsNeeded
/// tests around the target that take at most kMaxTestShare of its time, and no runs that shared
/// cores with others.
[[nodiscard]] SweepVerdict verdict(const std::vector<PointFigures>& points,
                                   const SweepTarget& target);

/// Which setting has the best mean final value; empty if bounds are compared, or if no run has
/// finished.
[[nodiscard]] std::string best_final(const std::vector<PointFigures>& points,
                                     const SweepMetric& metric);

/// How the verdict was reached, one fact a line: the target and when it was chosen, a run's tests
/// and the share of its time that they take, and what the size of the test set adds to the error.
[[nodiscard]] std::vector<std::string> basis_of(const std::vector<PointFigures>& points,
                                                const SweepTarget& target);

}  // namespace taut::cli
