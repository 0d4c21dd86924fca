#include <fmt/format.h>

#include "cli/sweep/report/report.hpp"
#include "common/csv_cell.hpp"

namespace taut::cli {
namespace {

std::string point_cells(const SweepPoint& point) {
  std::string cells =
      fmt::format("{},{},{}", csv_cell(point.slack), point.workers, csv_cell(point.variant));
  if (!point.cluster.empty()) cells += "," + csv_cell(point.cluster);
  for (const std::string& value : point.values) cells += "," + csv_cell(value);
  return cells;
}

/// The names of point_cells(): each varied field is a column, and so are the lab's clusters.
std::string point_columns(const SweepReport& report) {
  std::string columns = "slack,workers,variant";
  if (report.is_in_lab) columns += ",cluster";
  for (const std::string& field : report.fields) columns += "," + csv_cell(field);
  return columns;
}

std::string spread_cells(const Spread& spread) {
  return spread.count == 0 ? "," : fmt::format("{:.6g},{:.6g}", spread.mean, spread.deviation);
}

std::string optional_cell(const std::optional<double>& value) {
  return value ? fmt::format("{:.6g}", *value) : std::string();
}

}  // namespace

std::string runs_csv(const SweepReport& report) {
  const SweepMetric& metric = report.target.metric;
  std::string csv = fmt::format(
      "{},seed,state,failure,wall_s,clocks,rate,wait_share,"
      "mean_staleness,test_share,{},{},seconds_to_target,clocks_to_target\n",
      point_columns(report), csv_cell("final_" + metric.name), csv_cell("best_" + metric.name));
  for (const SweepOutcome& outcome : report.outcomes) {
    const SweepPoint& point = report.points[outcome.run.point].point;
    csv += fmt::format("{},{},", point_cells(point), outcome.run.seed);
    if (!outcome.result) {
      csv += fmt::format("failed,{},,,,,,,,,,\n", csv_cell(outcome.failure));
      continue;
    }
    const RunResult& run = *outcome.result;
    const auto reached = [&](const Curve& curve) {
      return first_reaching(curve, report.target.value, metric.higher_is_better);
    };
    csv += fmt::format("done,,{:.3f},{:.6g},{:.1f},{:.5f},{:.4f},{},{:.6g},{:.6g},{},{}\n",
                       run.wall_s, run.clocks, run.rate, run.wait_share, run.mean_staleness,
                       optional_cell(run.test_share), run.final_value, run.best_value,
                       optional_cell(reached(run.test_by_time)),
                       optional_cell(reached(run.test_by_clock)));
  }
  return csv;
}

std::string points_csv(const SweepReport& report) {
  std::string csv = point_columns(report) + ",runs,reached_target";
  for (const std::string& name :
       {std::string("seconds_to_target"), std::string("clocks_to_target"),
        "final_" + report.target.metric.name, std::string("rate"), std::string("wait_share"),
        std::string("staleness"), std::string("test_share")}) {
    csv += fmt::format(",{},{}", csv_cell(name + "_mean"), csv_cell(name + "_sd"));
  }
  csv += "\n";
  for (const PointFigures& point : report.points) {
    csv += fmt::format("{},{},{}", point_cells(point.point), point.runs.size(),
                       point.seconds_to_target.size());
    for (const Spread* spread :
         {&point.to_target_s, &point.to_target_clocks, &point.final_value, &point.rate,
          &point.wait_share, &point.staleness, &point.test_share}) {
      csv += "," + spread_cells(*spread);
    }
    csv += "\n";
  }
  return csv;
}

std::string curves_csv(const SweepReport& report) {
  std::string csv = point_columns(report) + ",seed,quantity,over,at,value\n";
  for (const SweepOutcome& outcome : report.outcomes) {
    if (!outcome.result) continue;
    const std::string head =
        fmt::format("{},{}", point_cells(report.points[outcome.run.point].point), outcome.run.seed);
    const auto add = [&](const std::string& quantity, const char* over, const Curve& curve) {
      for (std::size_t i = 0; i < curve.x.size(); ++i) {
        csv +=
            fmt::format("{},{},{},{:.6g},{:.6g}\n", head, quantity, over, curve.x[i], curve.y[i]);
      }
    };
    const std::string tested = csv_cell("test_" + report.target.metric.name);
    add(tested, "seconds", outcome.result->test_by_time);
    add(tested, "clocks", outcome.result->test_by_clock);
    add("train_loss", "seconds", outcome.result->loss_by_time);
    add("train_loss", "clocks", outcome.result->loss_by_clock);
  }
  return csv;
}

}  // namespace taut::cli
