#include <fmt/format.h>

#include "cli/sweep/report.hpp"

namespace taut::cli {
namespace {

/// A cell of text: quoted where it must be.
std::string cell(const std::string& text) {
  if (text.find_first_of(",\"\n") == std::string::npos) return text;
  std::string quoted = "\"";
  for (const char c : text) quoted += c == '"' ? std::string("\"\"") : std::string(1, c);
  return quoted + "\"";
}

std::string point_cells(const SweepPoint& point) {
  return fmt::format("{},{},{}", cell(point.slack), point.workers, cell(point.variant));
}

std::string spread_cells(const Spread& spread) {
  return spread.count == 0 ? "," : fmt::format("{:.6g},{:.6g}", spread.mean, spread.deviation);
}

std::string optional_cell(const std::optional<double>& value) {
  return value ? fmt::format("{:.6g}", *value) : std::string();
}

}  // namespace

std::string runs_csv(const SweepReport& report) {
  std::string csv =
      "slack,workers,variant,seed,state,failure,wall_s,clocks,images_per_second,wait_share,"
      "mean_staleness,final_accuracy,best_accuracy,seconds_to_target,clocks_to_target\n";
  for (const SweepOutcome& outcome : report.outcomes) {
    const SweepPoint& point = report.points[outcome.run.point].point;
    csv += fmt::format("{},{},", point_cells(point), outcome.run.seed);
    if (!outcome.result) {
      csv += fmt::format("failed,{},,,,,,,,,\n", cell(outcome.failure));
      continue;
    }
    const RunResult& run = *outcome.result;
    csv += fmt::format("done,,{:.3f},{:.6g},{:.1f},{:.5f},{:.4f},{:.6g},{:.6g},{},{}\n", run.wall_s,
                       run.clocks, run.images_per_second, run.wait_share, run.mean_staleness,
                       run.final_accuracy, run.best_accuracy,
                       optional_cell(first_reaching(run.accuracy_by_time, report.target)),
                       optional_cell(first_reaching(run.accuracy_by_clock, report.target)));
  }
  return csv;
}

std::string points_csv(const SweepReport& report) {
  std::string csv = "slack,workers,variant,runs,reached_target";
  for (const char* name : {"seconds_to_target", "clocks_to_target", "final_accuracy",
                           "images_per_second", "wait_share", "staleness"}) {
    csv += fmt::format(",{0}_mean,{0}_sd", name);
  }
  csv += "\n";
  for (const PointFigures& point : report.points) {
    csv += fmt::format("{},{},{}", point_cells(point.point), point.runs.size(),
                       point.seconds_to_target.size());
    for (const Spread* spread : {&point.to_target_s, &point.to_target_clocks, &point.accuracy,
                                 &point.images_per_second, &point.wait_share, &point.staleness}) {
      csv += "," + spread_cells(*spread);
    }
    csv += "\n";
  }
  return csv;
}

std::string curves_csv(const SweepReport& report) {
  std::string csv = "slack,workers,variant,seed,quantity,over,at,value\n";
  for (const SweepOutcome& outcome : report.outcomes) {
    if (!outcome.result) continue;
    const std::string head =
        fmt::format("{},{}", point_cells(report.points[outcome.run.point].point), outcome.run.seed);
    const auto add = [&](const char* quantity, const char* over, const Curve& curve) {
      for (std::size_t i = 0; i < curve.x.size(); ++i) {
        csv +=
            fmt::format("{},{},{},{:.6g},{:.6g}\n", head, quantity, over, curve.x[i], curve.y[i]);
      }
    };
    add("test_accuracy", "seconds", outcome.result->accuracy_by_time);
    add("test_accuracy", "clocks", outcome.result->accuracy_by_clock);
    add("train_loss", "seconds", outcome.result->loss_by_time);
    add("train_loss", "clocks", outcome.result->loss_by_clock);
  }
  return csv;
}

}  // namespace taut::cli
