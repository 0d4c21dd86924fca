#pragma once

#include <cstdint>
#include <string>

#include "common/result.hpp"
#include "proto/job.pb.h"

namespace taut::cli {

/// The figure of a test that a sweep compares.
struct SweepMetric {
  std::string name = "accuracy";  // "loss", "perplexity", or an output of the test net
  bool higher_is_better = true;
  bool is_share = true;           // from 0 to 1, shown in percent
  std::int64_t test_records = 0;  // of each test; 0: unknown

  [[nodiscard]] bool better(double a, double b) const { return higher_is_better ? a > b : a < b; }
  /// "test accuracy"
  [[nodiscard]] std::string title() const { return "test " + name; }
  /// "85.0 %", "0.4321"
  [[nodiscard]] std::string text(double value) const;
  /// The standard error of a test of `test_records` records at a value, from the binomial
  /// distribution; 0 if unknown, or if the metric is not a share of right answers.
  [[nodiscard]] double test_error(double value) const;
};

/// The metric with this name, as a job's first test phase reports it.
/// Errors    invalid: its tests do not report it; names those that they report
[[nodiscard]] Result<SweepMetric> metric_of(const std::string& name, const pb::Job& job);

}  // namespace taut::cli
