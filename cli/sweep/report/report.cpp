#include "cli/sweep/report/report.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <set>

#include "cli/sweep/report/chart.hpp"
#include "cli/sweep/report/report_charts.hpp"
#include "cli/views/draw.hpp"

namespace taut::cli {
namespace {

// Colors that also differ in lightness: between any two of them the distance (CIE 1976) is at least
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
figcaption{font-weight:600;margin:0 0 .3rem}figcaption .soft{font-weight:400;font-size:.85rem}
figure svg{width:100%;height:auto;display:block}
.t{fill:var(--fg);font:13px system-ui,sans-serif}.small{font-size:11.5px}
.rim{paint-order:stroke;stroke:var(--card);stroke-width:4px;stroke-linejoin:round}
.grid{stroke:var(--line)}.axis{stroke:var(--soft)}.mark{stroke:var(--soft);stroke-dasharray:3 3}
dl{display:grid;grid-template-columns:max-content 1fr;gap:.2rem 1rem}dt{color:var(--soft)}
dd{margin:0;overflow-wrap:anywhere}
@media(max-width:600px){dl{grid-template-columns:1fr}dd{margin-bottom:.4rem}}
)";

std::string figure(const Spread& spread, int digits, double factor = 1) {
  return plus_minus(spread, digits, "±", factor);
}

bool is_digit(char c) {
  return c >= '0' && c <= '9';
}

/// Escaped, with no line break between a number and its unit.
std::string prose(const std::string& text) {
  std::string joined;
  for (std::size_t at = 0; at < text.size(); ++at) {
    const bool is_joint = text[at] == ' ' && at > 0 && is_digit(text[at - 1]) &&
                          at + 1 < text.size() && !is_digit(text[at + 1]) && text[at + 1] != '(';
    if (is_joint) {
      joined += "\u00a0";
    } else {
      joined += text[at];
    }
  }
  return escape_html(joined);
}

std::string final_text(const PointFigures& point, const SweepMetric& metric) {
  return metric.is_share ? figure(point.final_value, 2, 100) : figure(point.final_value, 4);
}

/// marked  this is the soonest one
std::string table(const std::vector<PointFigures>& points, const SweepMetric& metric, bool marked) {
  const PointFigures* best = nullptr;
  for (const PointFigures& point : points) {
    const bool sooner = best == nullptr || point.to_target_s.mean < best->to_target_s.mean;
    if (marked && point.always_reached() && sooner) best = &point;
  }
  std::string html = "<div class=\"wide\"><table><thead><tr><th>" + kind_of(points) +
                     "</th><th>runs</th><th>time to target, s</th>"
                     "<th>clocks to target</th><th>final " +
                     escape_html(metric.name) + (metric.is_share ? ", %" : "") + "</th><th>" +
                     rate_of(points) +
                     "</th><th>waiting, %</th><th>mean staleness</th></tr></thead><tbody>\n";
  for (const PointFigures& point : points) {
    std::string reached = figure(point.to_target_s, 1);
    if (!point.always_reached() && !point.runs.empty()) {
      reached +=
          fmt::format(" ({} of {} reached it)", point.seconds_to_target.size(), point.runs.size());
    }
    html += fmt::format(
        "<tr{}><td>{}</td><td>{}</td><td>{}</td><td>{}</td><td>{}</td><td>{}</td><td>{}</td><td>{}"
        "</td></tr>\n",
        &point == best ? " class=\"best\"" : "", escape_html(point.point.name()), point.runs.size(),
        reached, figure(point.to_target_clocks, 0), final_text(point, metric),
        figure(point.rate, 0), figure(point.wait_share, 1, 100), figure(point.staleness, 2));
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
      "<th>" +
      kind_of(points) + "</th>";
  for (const std::uint64_t seed : seeds) html += fmt::format("<th>seed {}</th>", seed);
  html += "</tr></thead><tbody>\n";
  for (const PointFigures& point : points) {
    html += fmt::format("<tr><td>{}</td>", escape_html(point.point.name()));
    for (const std::uint64_t seed : seeds) {
      const auto run = point.by_seed.find(seed);
      const std::string text = run == point.by_seed.end() ? "failed"
                               : !run->second             ? "never"
                                                          : figure_text(run->second->seconds, 1);
      html += "<td>" + text + "</td>";
    }
    html += "</tr>\n";
  }
  return html + "</tbody></table></div>\n";
}

/// How throughput and progress per clock changed from the first bound to the last; policies and
/// settings are not ordered.
std::string trend(std::vector<PointFigures> points) {
  std::erase_if(points, [](const PointFigures& one) {
    return one.point.is_policy || one.point.is_by_setting;
  });
  if (points.size() < 2 || points.front().runs.empty() || points.back().runs.empty()) return {};
  const PointFigures& first = points.front();
  const PointFigures& last = points.back();
  std::string text = fmt::format(
      "From {} to {}, throughput goes from {} to {} {} and the share of time waited from "
      "{:.0f} to {:.0f} %",
      first.point.bound(), last.point.bound(), grouped(std::lround(first.rate.mean)),
      grouped(std::lround(last.rate.mean)), rate_of(points), 100 * first.wait_share.mean,
      100 * last.wait_share.mean);
  if (first.always_reached() && last.always_reached()) {
    text += fmt::format("; the clocks that it takes to the target go from {:.0f} to {:.0f}",
                        first.to_target_clocks.mean, last.to_target_clocks.mean);
  }
  return "<p>" + prose(text) + ".</p>\n";
}

std::string group_section(const std::vector<PointFigures>& points, const SweepTarget& target,
                          bool heading) {
  std::string html;
  if (heading) {
    html += fmt::format("<h2>{}</h2>\n", escape_html(points.front().point.group()));
  }
  const SweepVerdict found = verdict(points, target);
  html += fmt::format("<p class=\"verdict\">{}</p>\n<ul class=\"soft\">", prose(found.text));
  for (const std::string& line : basis_of(points, target)) {
    html += fmt::format("<li>{}</li>", prose(line));
  }
  if (const std::string best = best_final(points, target.metric); !best.empty()) {
    html += "<li>" + prose(best) + "</li>";
  }
  html += "</ul>\n" + trend(points) + table(points, target.metric, found.is_given);
  html += runs_table(points);
  if (points.size() <= kSeriesStyles || kind_of(points) != "setting") {
    return html + report_charts(points, target);
  }
  const std::vector<PointFigures> best(points.begin(), points.begin() + kSeriesStyles);
  return html +
         fmt::format("<p>The charts show the {} settings with the best final {} of {}.</p>\n",
                     best.size(), escape_html(target.metric.name), points.size()) +
         report_charts(best, target);
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

std::vector<std::vector<PointFigures>> groups_of(const std::vector<PointFigures>& points,
                                                 const SweepMetric& metric) {
  std::vector<std::vector<PointFigures>> groups;
  for (const PointFigures& point : points) {
    auto same = std::find_if(groups.begin(), groups.end(), [&](const auto& group) {
      return group.front().point.group() == point.point.group();
    });
    if (same == groups.end()) same = groups.emplace(groups.end());
    same->push_back(point);
  }
  for (auto& group : groups) {
    if (!group.front().point.is_by_setting) continue;
    std::ranges::stable_sort(group, [&](const PointFigures& a, const PointFigures& b) {
      if (a.runs.empty() || b.runs.empty()) return !a.runs.empty() && b.runs.empty();
      return metric.better(a.final_value.mean, b.final_value.mean);
    });
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
  const bool is_of_settings = kind_of(report.points) == "setting";
  std::string html =
      html_head(report.name + (is_of_settings ? ": settings compared" : ": staleness sweep"));
  html += fmt::format("<h1>{}: {}</h1>\n", escape_html(report.name),
                      is_of_settings ? "which setting?" : "how stale may the workers be?");
  const auto groups = groups_of(report.points, report.target.metric);
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
         "over all pairs that are compared. Staleness is the clock of a read minus the version it "
         "got. The "
         "figures are "
         "in runs.csv, points.csv and curves.csv next to this page.</p>\n</body>\n</html>\n";
}

}  // namespace taut::cli
