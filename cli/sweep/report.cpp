#include "cli/sweep/report.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <set>

#include "cli/sweep/chart.hpp"

namespace taut::cli {
namespace {

constexpr std::size_t kPlaces = 120;

// Colours that differ in lightness too: between any two of them the distance (CIE 1976) is at least
// 24 for any vision, and with simulated deuteranopia and protanopia.
constexpr const char* kStyle = R"(
:root{color-scheme:light dark;--bg:#fff;--fg:#1b1f24;--soft:#59636e;--line:#d9dee4;--card:#f5f7f9;
--s0:#142e5e;--s1:#c97900;--s2:#0f5851;--s3:#d16dae;--s4:#681a00;--s5:#3480e9;--s6:#180f1d;
--s7:#9c632f}
@media(prefers-color-scheme:dark){:root{--bg:#14171b;--fg:#e8ebee;--soft:#a3adb8;--line:#333a42;
--card:#1d2228;--s0:#5285ff;--s1:#ff8000;--s2:#12c28f;--s3:#a65195;--s4:#da1937;--s5:#a9e9ff;
--s6:#e4ff9b;--s7:#fdfc1b}}
*{box-sizing:border-box}
body{margin:0 auto;max-width:1400px;padding:1rem clamp(.8rem,3vw,2.5rem) 3rem;background:var(--bg);
color:var(--fg);font:16px/1.5 system-ui,sans-serif}
h1{font-size:1.6rem;margin:.5rem 0}h2{font-size:1.25rem;margin:2rem 0 .5rem}
h3{font-size:1.05rem;margin:1.5rem 0 .4rem}
p{max-width:75ch}.soft{color:var(--soft)}
.verdict{border-left:4px solid var(--s0);background:var(--card);padding:.8rem 1rem;margin:1rem 0;
font-size:1.1rem;border-radius:0 6px 6px 0}
.failed{border-left-color:var(--s4)}
.wide{overflow-x:auto}table{border-collapse:collapse;font-size:.92rem;min-width:100%}
th,td{padding:.35rem .7rem;text-align:right;border-bottom:1px solid var(--line);white-space:nowrap}
th:first-child,td:first-child{text-align:left;position:sticky;left:0;background:var(--bg)}
th{color:var(--soft);font-weight:600;vertical-align:bottom}.best td{font-weight:650}
.legend{display:flex;flex-wrap:wrap;gap:.3rem 1.2rem;padding:0;margin:1rem 0;list-style:none}
.legend li{display:flex;align-items:center;gap:.45rem}.swatch{width:34px;height:14px}
.charts{display:grid;grid-template-columns:repeat(auto-fit,minmax(min(100%,370px),1fr));gap:1rem}
figure{margin:0;background:var(--card);border-radius:8px;padding:.7rem}
figcaption{font-weight:600;margin:0 0 .3rem}
figure svg{width:100%;height:auto;display:block}
.t{fill:var(--fg);font:13px system-ui,sans-serif}.small{font-size:11.5px}
.rim{paint-order:stroke;stroke:var(--card);stroke-width:4px;stroke-linejoin:round}
.grid{stroke:var(--line)}.axis{stroke:var(--soft)}.mark{stroke:var(--soft);stroke-dasharray:3 3}
dl{display:grid;grid-template-columns:max-content 1fr;gap:.2rem 1rem}dt{color:var(--soft)}
dd{margin:0;overflow-wrap:anywhere}
@media(max-width:600px){dl{grid-template-columns:1fr}dd{margin-bottom:.4rem}}
)";

std::string plus_minus(const Spread& spread, int digits, double factor = 1,
                       const std::string& unit = "") {
  if (spread.count == 0) return "–";
  std::string text = fmt::format("{:.{}f}", factor * spread.mean, digits);
  if (spread.count > 1) text += fmt::format(" ± {:.{}f}", factor * spread.deviation, digits);
  return text + unit;
}

std::string final_text(const PointFigures& point, const SweepMetric& metric) {
  return metric.is_share ? plus_minus(point.final_value, 2, 100) : plus_minus(point.final_value, 4);
}

/// best  the soonest bound is marked
std::string table(const std::vector<PointFigures>& points, const SweepMetric& metric, bool marked) {
  const PointFigures* best = nullptr;
  for (const PointFigures& point : points) {
    const bool sooner = best == nullptr || point.to_target_s.mean < best->to_target_s.mean;
    if (marked && point.always_reached() && sooner) best = &point;
  }
  std::string html =
      "<div class=\"wide\"><table><thead><tr><th>bound</th><th>runs</th><th>time to target, s</th>"
      "<th>clocks to target</th><th>final " +
      escape_html(metric.name) + (metric.is_share ? ", %" : "") + "</th><th>" + rate_of(points) +
      "</th><th>waiting, %</th><th>mean staleness</th></tr></thead><tbody>\n";
  for (const PointFigures& point : points) {
    std::string reached = plus_minus(point.to_target_s, 1);
    if (!point.always_reached() && !point.runs.empty()) {
      reached +=
          fmt::format(" ({} of {} reached it)", point.seconds_to_target.size(), point.runs.size());
    }
    html += fmt::format(
        "<tr{}><td>{}</td><td>{}</td><td>{}</td><td>{}</td><td>{}</td><td>{}</td><td>{}</td><td>{}"
        "</td></tr>\n",
        &point == best ? " class=\"best\"" : "", escape_html(point.point.bound()),
        point.runs.size(), reached, plus_minus(point.to_target_clocks, 0),
        final_text(point, metric), plus_minus(point.rate, 0), plus_minus(point.wait_share, 1, 100),
        plus_minus(point.staleness, 2));
  }
  return html + "</tbody></table></div>\n";
}

/// Each run's time to the target: a row for each bound, a column for each seed.
std::string runs_table(const std::vector<PointFigures>& points) {
  std::set<std::uint64_t> seeds;
  for (const PointFigures& point : points) {
    for (const auto& [seed, time] : point.by_seed) seeds.insert(seed);
  }
  if (seeds.empty()) return {};
  std::string html =
      "<h3>Time to the target of every run, s</h3>\n<div class=\"wide\"><table><thead><tr>"
      "<th>bound</th>";
  for (const std::uint64_t seed : seeds) html += fmt::format("<th>seed {}</th>", seed);
  html += "</tr></thead><tbody>\n";
  for (const PointFigures& point : points) {
    html += fmt::format("<tr><td>{}</td>", escape_html(point.point.bound()));
    for (const std::uint64_t seed : seeds) {
      const auto run = point.by_seed.find(seed);
      const std::string text = run == point.by_seed.end() ? "failed"
                               : !run->second             ? "never"
                                              : fmt::format("{:.1f}", run->second->seconds);
      html += "<td>" + text + "</td>";
    }
    html += "</tr>\n";
  }
  return html + "</tbody></table></div>\n";
}

/// Every run's curve of one kind, point by point, on places up to the longest run's end.
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
    all.push_back({points[i].point.bound(), i, band_of(curves, places)});
  }
  return all;
}

/// The share-th of all means, from the lowest.
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
    DotCategory category{points[i].point.slack, i, {}, {}};
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
    chart.categories.push_back({point.point.slack, i, point.*values, note});
  }
  return dot_chart(chart);
}

/// The axis goes as far as twice the largest bound; what async adds beyond is one bar.
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
    HistogramRow row{points[i].point.bound(), i, {}};
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

/// What happened to throughput and to progress per clock from the first bound to the last; a policy
/// is on no axis.
std::string trend(std::vector<PointFigures> points) {
  std::erase_if(points, [](const PointFigures& one) { return one.point.is_policy; });
  if (points.size() < 2 || points.front().runs.empty() || points.back().runs.empty()) return {};
  const PointFigures& first = points.front();
  const PointFigures& last = points.back();
  std::string text = fmt::format(
      "From {} to {}, throughput goes from {:.0f} to {:.0f} {} and the share of time waited from "
      "{:.0f} to {:.0f} %",
      first.point.bound(), last.point.bound(), first.rate.mean, last.rate.mean, rate_of(points),
      100 * first.wait_share.mean, 100 * last.wait_share.mean);
  if (first.always_reached() && last.always_reached()) {
    text += fmt::format("; the clocks that it takes to the target go from {:.0f} to {:.0f}",
                        first.to_target_clocks.mean, last.to_target_clocks.mean);
  }
  return "<p>" + escape_html(text) + ".</p>\n";
}

std::string group_section(const std::vector<PointFigures>& points, const SweepTarget& target,
                          bool heading) {
  std::string html;
  const bool has_policies =
      std::ranges::any_of(points, [](const PointFigures& point) { return point.point.is_policy; });
  const std::string axis = has_policies ? "slack or policy" : "slack";
  if (heading) {
    html += fmt::format("<h2>{}</h2>\n", escape_html(points.front().point.group()));
  }
  const Verdict found = verdict(points, target);
  html += fmt::format("<p class=\"verdict\">{}</p>\n<ul class=\"soft\">", escape_html(found.text));
  for (const std::string& line : basis_of(points, target)) {
    html += fmt::format("<li>{}</li>", escape_html(line));
  }
  html += "</ul>\n" + trend(points) + table(points, target.metric, found.is_given);
  html += runs_table(points) + "<ul class=\"legend\" aria-label=\"bounds\">";
  for (std::size_t i = 0; i < points.size(); ++i) {
    html += fmt::format("<li>{}{}</li>", swatch(i), escape_html(points[i].point.bound()));
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

std::string failures(const SweepReport& report) {
  std::string html;
  for (const SweepOutcome& outcome : report.outcomes) {
    if (outcome.result) continue;
    html +=
        fmt::format("<br>{}: {}", escape_html(outcome.run.folder), escape_html(outcome.failure));
  }
  if (html.empty()) return {};
  return "<p class=\"verdict failed\">These runs have no result and are in no figure:" + html +
         "</p>\n";
}

}  // namespace

std::vector<std::vector<PointFigures>> groups_of(const std::vector<PointFigures>& points) {
  std::vector<std::vector<PointFigures>> groups;
  for (const PointFigures& point : points) {
    auto same = std::find_if(groups.begin(), groups.end(), [&](const auto& group) {
      return group.front().point.group() == point.point.group();
    });
    if (same == groups.end()) same = groups.emplace(groups.end());
    same->push_back(point);
  }
  return groups;
}

std::string html_head(const std::string& title) {
  return fmt::format(
      "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n<meta "
      "name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n<title>{}</title>\n"
      "<style>{}</style>\n</head>\n<body>\n",
      escape_html(title), kStyle);
}

std::string report_html(const SweepReport& report) {
  std::string html = html_head(report.name + ": staleness sweep");
  html += fmt::format("<h1>{}: how stale may the workers be?</h1>\n", escape_html(report.name));
  const auto groups = groups_of(report.points);
  for (const auto& group : groups) html += group_section(group, report.target, groups.size() > 1);
  html += failures(report) + "<h2>Setting</h2>\n<dl>\n";
  for (const auto& [what, value] : report.setting) {
    html += fmt::format("<dt>{}</dt><dd>{}</dd>\n", escape_html(what), escape_html(value));
  }
  return html +
         "</dl>\n<h2>How to read it</h2>\n<p class=\"soft\">Every figure is the mean over the "
         "seeds; "
         "± and the bands are one sample standard deviation, dots are single runs. Time runs from "
         "when the first worker opened the job. Clocks are the mean over the workers. The time to "
         "the target is where the line between two tests crosses it. Noise: the exact sign-flip "
         "test of the differences seed by seed, two-sided, at the 5 % level with Holm’s correction "
         "over all pairs of bounds. Staleness is the clock of a read minus the version it got. The "
         "figures are "
         "in runs.csv, points.csv and curves.csv next to this page.</p>\n</body>\n</html>\n";
}

}  // namespace taut::cli
