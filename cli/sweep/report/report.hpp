#pragma once

#include <string>
#include <utility>
#include <vector>

#include "cli/sweep/comparison.hpp"

namespace taut::cli {

/// A sweep's results, as its report shows them.
struct SweepReport {
  std::string name;
  SweepTarget target;
  std::vector<std::string> fields;  // that are varied: their paths
  bool is_in_lab = false;
  std::vector<PointFigures> points;
  std::vector<SweepOutcome> outcomes;
  std::vector<std::pair<std::string, std::string>> setting;  // what is the same for all runs
};

/// The start of a page, up to its body, with the style of the charts.
[[nodiscard]] std::string html_head(const std::string& title);

/// One page that needs no network and no script: the verdict, a table, and charts for each group of
/// points that are compared with each other.
[[nodiscard]] std::string report_html(const SweepReport& report);

/// One line for each run, and one for each point with mean and standard deviation over its seeds.
[[nodiscard]] std::string runs_csv(const SweepReport& report);
[[nodiscard]] std::string points_csv(const SweepReport& report);
/// The metric and the training loss of each run over time and clocks, in long form.
[[nodiscard]] std::string curves_csv(const SweepReport& report);

/// The points by group: those of one group are compared with each other. Bounds are in order;
/// settings start with the best final value.
[[nodiscard]] std::vector<std::vector<PointFigures>> groups_of(
    const std::vector<PointFigures>& points, const SweepMetric& metric);

}  // namespace taut::cli
