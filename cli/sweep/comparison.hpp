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

/// Why a run that was never started has no result.
inline constexpr const char* kNotRun = "not run yet";

/// Seeds from which on so many bounds are compared: with fewer, no lead among them can be
/// distinguished from chance by the test of verdict(), however large it is.
[[nodiscard]] std::size_t seeds_needed(std::size_t bounds);

/// The share of a run's time up to which tests leave the bounds' times their own.
inline constexpr double kMaxTestShare = 0.1;

/// A run as it ended: with a result, or a reason why it has none.
struct SweepOutcome {
  SweepRun run;
  std::optional<RunResult> result;
  std::string failure;
};

/// That a plan's seeds are too few to compare its bounds, with the number that is not, before
/// anything has run; empty: they are enough, or there is nothing to compare.
[[nodiscard]] std::string too_few_seeds(const SweepPlan& plan, std::size_t seeds);

/// The value of the metric to which times are compared.
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
  Spread test_share;  // of those whose records say it
  Spread to_target_s;
  Spread to_target_clocks;

  [[nodiscard]] bool always_reached() const {
    return !runs.empty() && seconds_to_target.size() == runs.size();
  }
};

/// The target that is compared: the given one, or the best value that every run reached, rounded
/// toward worse: accuracies to half a percent, others to two digits.
[[nodiscard]] SweepTarget target_of(const SweepMetric& metric, std::optional<double> given,
                                    const std::vector<SweepOutcome>& outcomes);

/// One entry for each point, in the plan's order.
[[nodiscard]] std::vector<PointFigures> figures_of(const SweepPlan& plan,
                                                   const std::vector<SweepOutcome>& outcomes,
                                                   const SweepTarget& target);

/// What the points of a group are: "bound" or "setting".
[[nodiscard]] std::string kind_of(const std::vector<PointFigures>& points);

/// The unit of the points' throughput, e.g. "images/s".
[[nodiscard]] std::string rate_of(const std::vector<PointFigures>& points);

/// The soonest point against another one, seed by seed.
struct PairedTest {
  std::string name;  // the other one
  std::size_t seeds = 0;
  double later_s = 0;  // the mean of the differences
  double p = 1;        // with Holm's correction
};

/// Which bound or setting of one group reached the target soonest, by how much, and whether that is
/// beyond the noise; or why the runs do not say.
struct SweepVerdict {
  std::string text;
  bool is_given = false;          // false: the text says why not
  std::vector<PairedTest> tests;  // empty unless given
};

/// For the points of one group. They are compared where every run reached the target: paired over
/// the seeds, by the exact sign-flip test, at 5 % with Holm's correction over all pairs, because
/// the soonest one is chosen by the same times. It takes seeds_needed() seeds, in each run
/// kTestsNeeded tests around the target that take at most kMaxTestShare of its time, and no runs
/// that shared cores with others.
[[nodiscard]] SweepVerdict verdict(const std::vector<PointFigures>& points,
                                   const SweepTarget& target);

/// Which setting has the best final value, on the mean; empty where bounds are compared, or where
/// no run has finished.
[[nodiscard]] std::string best_final(const std::vector<PointFigures>& points,
                                     const SweepMetric& metric);

/// How the verdict was reached, a line each: the target and when it was chosen, the tests of a run
/// and what they take of its time, what the size of the test set adds to the error.
[[nodiscard]] std::vector<std::string> basis_of(const std::vector<PointFigures>& points,
                                                const SweepTarget& target);

}  // namespace taut::cli
