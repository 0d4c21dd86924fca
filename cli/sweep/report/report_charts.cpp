#include "cli/sweep/report/report_charts.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdint>

#include "cli/sweep/report/chart.hpp"

namespace taut::cli {
namespace {

constexpr std::size_t kPlaces = 120;

// A setting's name is too long for an axis, so there it has a number, which the legend explains.

std::string number_of(std::size_t i) {
  return fmt::format("#{}", i + 1);
}

std::string label_of(const PointFigures& figures, std::size_t i) {
  return figures.point.is_by_setting ? number_of(i) : figures.point.slack;
}

std::string row_name_of(const PointFigures& figures, std::size_t i) {
  return figures.point.is_by_setting ? number_of(i) : figures.point.name();
}

std::string legend_of(const PointFigures& figures, std::size_t i) {
  const std::string name = figures.point.name();
  return figures.point.is_by_setting ? number_of(i) + ": " + name : name;
}

/// Every run's curve of one kind, point by point, at places up to the longest run's end.
std::vector<BandSeries> series_of(const std::vector<PointFigures>& points,
                                  Curve RunResult::*curve) {
  double end = 0;
  for (const PointFigures& point : points) {
    for (const RunResult& run : point.runs) {
      if (!(run.*curve).x.empty()) end = std::max(end, (run.*curve).x.back());
    }
  }
  std::vector<double> places;
  for (std::size_t i = 0; i <= kPlaces; ++i) {
    places.push_back(end * static_cast<double>(i) / kPlaces);
  }
  std::vector<BandSeries> all;
  for (std::size_t i = 0; i < points.size(); ++i) {
    std::vector<Curve> curves;
    for (const RunResult& run : points[i].runs) curves.push_back(run.*curve);
    all.push_back({points[i].point.name(), i, band_of(curves, places)});
  }
  return all;
}

/// The quantile `share` of all means, from the lowest.
double quantile(const std::vector<BandSeries>& series, double share) {
  std::vector<double> values;
  for (const BandSeries& one : series) {
    values.insert(values.end(), one.band.mean.begin(), one.band.mean.end());
  }
  if (values.empty()) return 0;
  std::sort(values.begin(), values.end());
  return values[static_cast<std::size_t>(share * static_cast<double>(values.size() - 1))];
}

std::string metric_chart(const std::vector<PointFigures>& points, Curve RunResult::*curve,
                         const SweepTarget& target, const std::string& over,
                         const std::string& label) {
  const SweepMetric& metric = target.metric;
  LineChart chart{
      {escape_html("Test " + metric.name + " over " + over), label, escape_html(metric.title())},
      series_of(points, curve),
      0,
      1,
      metric.is_share,
      target.value};
  // The steep start would leave no space for the comparison.
  if (!metric.is_share) {
    chart.low = std::min(quantile(chart.series, 0), target.value);
    const double high = std::max(quantile(chart.series, 0.9), target.value);
    chart.high = high + std::max(0.25 * (high - chart.low), 1e-6 * std::abs(high) + 1e-12);
    return line_chart(chart);
  }
  const double high = quantile(chart.series, 1);
  const double low = std::min(quantile(chart.series, 0.1), target.value);
  chart.low = std::max(0.0, std::floor(100 * (low - 0.25 * (high - low))) / 100);
  chart.high = std::min(1.0, std::ceil(100 * (high + 0.01)) / 100);
  return line_chart(chart);
}

std::string loss_chart(const std::vector<PointFigures>& points, Curve RunResult::*curve,
                       const std::string& over, const std::string& label) {
  LineChart chart{{"Training loss over " + over, label, "training loss"},
                  series_of(points, curve),
                  0,
                  1,
                  false,
                  std::nullopt};
  const double typical = quantile(chart.series, 0.9);
  chart.high = typical > 0 ? 1.3 * typical : 1;
  return line_chart(chart);
}

std::string figure_chart(const std::vector<PointFigures>& points, const ChartText& text,
                         double RunResult::*field, bool percent) {
  DotChart chart{text, {}, percent};
  for (std::size_t i = 0; i < points.size(); ++i) {
    DotCategory category{label_of(points[i], i), i, {}, {}};
    for (const RunResult& run : points[i].runs) category.values.push_back(run.*field);
    chart.categories.push_back(std::move(category));
  }
  return dot_chart(chart);
}

std::string target_chart(const std::vector<PointFigures>& points, const ChartText& text,
                         std::vector<double> PointFigures::*values) {
  DotChart chart{text, {}, false};
  for (std::size_t i = 0; i < points.size(); ++i) {
    const PointFigures& point = points[i];
    std::string note;
    if (point.runs.empty()) {
      note = "failed";
    } else if ((point.*values).empty()) {
      note = "never";
    } else if (!point.always_reached()) {
      note = fmt::format("{} of {}", (point.*values).size(), point.runs.size());
    }
    chart.categories.push_back({label_of(point, i), i, point.*values, note});
  }
  return dot_chart(chart);
}

/// The axis ends at twice the largest bound; larger values of async are one bar.
std::size_t staleness_bars(const std::vector<PointFigures>& points) {
  std::size_t bound = 4;
  std::size_t most = 0;
  for (const PointFigures& point : points) {
    const pb::Consistency& consistency = point.point.job.consistency();
    if (consistency.mode() == pb::Consistency::SSP) {
      bound = std::max<std::size_t>(bound, consistency.has_dynamic_slack()
                                               ? consistency.dynamic_slack().most()
                                               : consistency.slack());
    }
    for (const RunResult& run : point.runs) {
      if (run.staleness.empty()) continue;
      most = std::max(
          most, static_cast<std::size_t>(std::max<std::int64_t>(run.staleness.rbegin()->first, 0)));
    }
  }
  return std::min(most, 2 * std::min<std::size_t>(bound, 24)) + 1;
}

std::string staleness_chart(const std::vector<PointFigures>& points) {
  const std::size_t bars = staleness_bars(points);
  bool is_rest = false;
  std::vector<HistogramRow> rows;
  for (std::size_t i = 0; i < points.size(); ++i) {
    HistogramRow row{row_name_of(points[i], i), i, {}};
    double reads = 0;
    for (const RunResult& run : points[i].runs) {
      for (const auto& [staleness, count] : run.staleness) {
        auto at = static_cast<std::size_t>(std::max<std::int64_t>(staleness, 0));
        is_rest = is_rest || at >= bars;
        at = std::min(at, bars - 1);
        if (row.shares.size() <= at) row.shares.resize(at + 1, 0);
        row.shares[at] += static_cast<double>(count);
        reads += static_cast<double>(count);
      }
    }
    for (double& share : row.shares) share /= std::max(reads, 1.0);
    rows.push_back(std::move(row));
  }
  return histogram_chart(
      {"Staleness of the reads", "clocks behind; each row to its own height", ""}, rows, is_rest);
}

std::string axis_of(const std::vector<PointFigures>& points) {
  if (kind_of(points) == "setting") return "setting";
  const bool has_policies =
      std::ranges::any_of(points, [](const PointFigures& point) { return point.point.is_policy; });
  return has_policies ? "slack or policy" : "slack";
}

}  // namespace

std::string report_charts(const std::vector<PointFigures>& points, const SweepTarget& target) {
  const std::string axis = axis_of(points);
  std::string html = fmt::format("<ul class=\"legend\" aria-label=\"{}s\">", kind_of(points));
  for (std::size_t i = 0; i < points.size(); ++i) {
    html += fmt::format("<li>{}{}</li>", swatch(i), escape_html(legend_of(points[i], i)));
  }
  html += "</ul>\n<div class=\"charts\">\n";
  html += metric_chart(points, &RunResult::test_by_time, target, "wall time", "seconds");
  html += metric_chart(points, &RunResult::test_by_clock, target, "clocks",
                       "clocks, mean of the workers");
  html += target_chart(points, {"Time to the target", axis, "seconds"},
                       &PointFigures::seconds_to_target);
  html += target_chart(points, {"Clocks to the target", axis, "clocks"},
                       &PointFigures::clocks_to_target);
  html += figure_chart(points, {"Throughput", axis, rate_of(points) + ", all workers"},
                       &RunResult::rate, false);
  html += figure_chart(points, {"Share of time waiting", axis, "of the workers' time"},
                       &RunResult::wait_share, true);
  html += loss_chart(points, &RunResult::loss_by_time, "wall time", "seconds");
  html += loss_chart(points, &RunResult::loss_by_clock, "clocks", "clocks");
  return html + staleness_chart(points) + "</div>\n";
}

}  // namespace taut::cli
