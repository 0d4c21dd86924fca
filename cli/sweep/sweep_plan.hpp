#pragma once

#include <google/protobuf/message.h>

#include <cstdint>
#include <string>
#include <vector>

#include "cli/sweep/metric.hpp"
#include "common/result.hpp"
#include "proto/job.pb.h"
#include "proto/sweep.pb.h"

namespace taut::cli {

/// The number of tests, from a run's start to twice the clocks that a target takes, with which the
/// target's time is known well enough to compare it.
inline constexpr std::size_t kTestsNeeded = 20;

/// One cell of a sweep's grid: a job except for its seed.
struct SweepPoint {
  std::string slack;  // "0", "1", ..., "async", or a policy's name
  std::uint32_t workers = 1;
  std::string variant;  // empty: the sweep has none
  pb::Job job;
  bool is_policy = false;
  std::int32_t given_interval =
      0;                     // the solver's own test_interval; the job may have a shorter one
  std::string setting = {};  // "base_lr 0.01, momentum 0.9"; empty: nothing is varied
  std::vector<std::string> values = {};  // of the varied fields, in the sweep's order
  bool is_by_setting = false;            // settings are compared: there is one bound
  std::string cluster = {};              // of the lab, its name; empty: real processes

  /// E.g. "slack 2", "BSP", "async", "dynamic_slack".
  [[nodiscard]] std::string bound() const;
  /// What is compared within a group: the bound, or the setting.
  [[nodiscard]] std::string name() const { return is_by_setting ? setting : bound(); }
  /// "bound" or "setting"
  [[nodiscard]] std::string kind() const { return is_by_setting ? "setting" : "bound"; }
  /// What it shares with the points that it is compared with, e.g. "4 workers, bursts, rack".
  [[nodiscard]] std::string group() const;
};

/// One run: a point with a seed, in its own folder.
struct SweepRun {
  std::size_t point = 0;
  std::uint64_t seed = 1;
  std::string folder;  // within the sweep's, e.g. "slack2-workers4-seed1"
  pb::Job job;
  std::string cluster = {};  // of the lab, as text; empty: real processes
};

struct SweepPlan {
  std::vector<SweepPoint> points;
  SweepMetric metric;
  std::vector<std::string> fields;  // that are varied: their paths
  bool is_in_lab = false;
  std::vector<SweepRun> runs;  // all points with the first seed, then all with the second, ...
};

/// Merges the fields of `over` into those of `base`: like protobuf's merge, but a repeated field
/// that is given replaces the other.
void put_fields_over(const google::protobuf::Message& over, google::protobuf::Message& base);

/// The runs of a sweep. Where a solver's test_interval gives a run fewer than kTestsNeeded tests,
/// the runs test more often.
/// base      the whole job
/// Errors    invalid: every value that cannot work, one a line; a cluster that cannot be read, or
///           has too few places for the workers and servers
[[nodiscard]] Result<SweepPlan> plan_sweep(const pb::Sweep& sweep, const pb::Job& base);

}  // namespace taut::cli
