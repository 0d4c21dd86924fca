#include "cli/runs/run_comparison.hpp"

#include <fmt/format.h>
#include <google/protobuf/util/message_differencer.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <nlohmann/json.hpp>
#include <span>
#include <sstream>

#include "cli/sweep/report/chart.hpp"
#include "cli/sweep/report/report.hpp"
#include "cli/views/draw.hpp"
#include "common/files/file.hpp"
#include "proto/config/text.hpp"
#include "proto/job.pb.h"

namespace taut::cli {
namespace {

namespace fs = std::filesystem;

// A net that is replaced entirely has thousands of differences.
constexpr std::size_t kMaxShownFields = 200;

/// One line of the differencer: "modified: a.b: 1 -> 2", "added: a.b: 2", "deleted: a.b: 1".
FieldDifference difference_in(const std::string& line) {
  const std::size_t kind_end = line.find(": ");
  const std::size_t field_end = line.find(": ", kind_end + 2);
  const std::string kind = line.substr(0, kind_end);
  FieldDifference one;
  if (kind_end == std::string::npos || field_end == std::string::npos) return one;
  one.field = line.substr(kind_end + 2, field_end - kind_end - 2);
  std::string value = line.substr(field_end + 2);
  if (kind == "added") {
    one.second = value;
  } else if (kind == "deleted") {
    one.first = value;
  } else if (const std::size_t arrow = value.find(" -> "); arrow != std::string::npos) {
    one.first = value.substr(0, arrow);
    one.second = value.substr(arrow + 4);
  }
  return one;
}

std::vector<FieldDifference> fields_of(const pb::Job& first, const pb::Job& second) {
  google::protobuf::util::MessageDifferencer differencer;
  std::string report;
  differencer.ReportDifferencesToString(&report);
  differencer.Compare(first, second);
  std::vector<FieldDifference> all;
  std::istringstream lines(report);
  for (std::string line; std::getline(lines, line);) {
    FieldDifference one = difference_in(line);
    if (!one.field.empty()) all.push_back(std::move(one));
  }
  return all;
}

std::span<const FieldDifference> shown_of(const std::vector<FieldDifference>& fields) {
  return std::span(fields).first(std::min(fields.size(), kMaxShownFields));
}

/// How many fields are not shown; empty if none.
std::string left_out_of(const std::vector<FieldDifference>& fields) {
  if (fields.size() <= kMaxShownFields) return {};
  return fmt::format("and {} more",
                     grouped(static_cast<std::int64_t>(fields.size() - kMaxShownFields)));
}

std::string shown(const std::optional<double>& value, int digits) {
  return value ? fmt::format("{:.{}f}", *value, digits) : std::string("-");
}

FigurePair figure(const std::string& what, const std::optional<double>& first,
                  const std::optional<double>& second, int digits) {
  FigurePair pair{what, shown(first, digits), shown(second, digits), {}};
  if (first && second) pair.difference = fmt::format("{:+.{}f}", *second - *first, digits);
  // "+0.0000" and "-0.0" are not a difference.
  if (pair.difference.find_first_not_of("+-0.") == std::string::npos) pair.difference.clear();
  return pair;
}

FigurePair words(const std::string& what, const std::string& first, const std::string& second) {
  return {what, first.empty() ? "-" : first, second.empty() ? "-" : second, {}};
}

/// Rates of different units have no difference.
FigurePair rates(const RunRecord& first, const RunRecord& second) {
  if (first.rate_unit == second.rate_unit) {
    return figure(first.rate_unit, first.rate, second.rate, 0);
  }
  return {"rate",
          shown(first.rate, 0) + " " + first.rate_unit,
          shown(second.rate, 0) + " " + second.rate_unit,
          {}};
}

std::vector<FigurePair> figures_of(const RunRecord& first, const RunRecord& second) {
  std::vector<FigurePair> all{
      words("state", first.state, second.state),
      words("mode", first.mode, second.mode),
      words("workers", std::to_string(first.workers), std::to_string(second.workers)),
      figure("iterations", static_cast<double>(first.iterations),
             static_cast<double>(second.iterations), 0),
      figure("test accuracy", first.accuracy, second.accuracy, 4),
      figure("test loss", first.loss, second.loss, 4),
      rates(first, second),
      figure("seconds", first.seconds, second.seconds, 1),
      words("parameters sha256", first.parameters_sha256.substr(0, 16),
            second.parameters_sha256.substr(0, 16)),
      words("began", first.began, second.began),
      words("command", first.command, second.command),
      words("project", first.project.substr(0, 12), second.project.substr(0, 12)),
      words("build", first.build, second.build),
      words("tags", fmt::format("{}", fmt::join(first.tags, " ")),
            fmt::format("{}", fmt::join(second.tags, " "))),
      words("note", first.note, second.note)};
  std::erase_if(all,
                [](const FigurePair& pair) { return pair.first == "-" && pair.second == "-"; });
  return all;
}

/// A figure of the run's tests over iterations.
Curve test_curve(const RunRecord& run, const char* key) {
  Curve curve;
  const auto text = read_file(run.folder / "summary.json");
  if (!text) return curve;
  const auto summary = nlohmann::json::parse(text.value(), nullptr, false);
  if (!summary.is_object() || !summary.contains("evaluations")) return curve;
  for (const auto& test : summary["evaluations"]) {
    if (!test.contains(key) || !test[key].is_number()) continue;
    curve.add(test.value("iteration", 0.0), test[key].get<double>());
  }
  return curve;
}

std::vector<std::string> cells_of(const std::string& line) {
  std::vector<std::string> cells(1);
  for (const char c : line) {
    if (c == ',') {
      cells.emplace_back();
    } else {
      cells.back() += c;
    }
  }
  return cells;
}

/// Adds the training losses of one metrics.csv.
void read_losses(const fs::path& file, std::vector<double>& clocks, std::vector<double>& losses) {
  const auto text = read_file(file);
  if (!text) return;
  std::istringstream lines(text.value());
  std::string line;
  std::getline(lines, line);
  const std::vector<std::string> header = cells_of(line);
  const auto column = [&](const char* name) {
    return static_cast<std::size_t>(std::ranges::find(header, name) - header.begin());
  };
  const std::size_t clock = column("clock");
  const std::size_t loss = column("loss");
  if (clock >= header.size() || loss >= header.size()) return;
  while (std::getline(lines, line)) {
    const std::vector<std::string> cells = cells_of(line);
    if (cells.size() != header.size() || cells[loss].empty()) continue;
    clocks.push_back(std::strtod(cells[clock].c_str(), nullptr) + 1);
    losses.push_back(std::strtod(cells[loss].c_str(), nullptr));
  }
}

/// The mean training loss of all workers over clocks.
Curve loss_curve(const RunRecord& run) {
  constexpr std::size_t kBins = 100;
  std::vector<double> clocks;
  std::vector<double> losses;
  std::error_code failed;
  for (fs::directory_iterator entry(run.folder, failed), end; !failed && entry != end;
       entry.increment(failed)) {
    read_losses(entry->path() / "metrics.csv", clocks, losses);
  }
  if (clocks.empty()) return {};
  return binned(clocks, losses, *std::ranges::max_element(clocks), kBins);
}

std::string curve_chart(const RunComparison& comparison, const std::string& title,
                        const std::string& y_label, const std::array<Curve, 2>& curves,
                        bool percent) {
  LineChart chart;
  chart.text = {title, "iterations", y_label};
  chart.percent = percent;
  double low = INFINITY;
  double high = -INFINITY;
  for (std::size_t i = 0; i < curves.size(); ++i) {
    const Curve& curve = curves[i];
    if (curve.x.empty()) continue;
    const Band band{curve.x, curve.y, std::vector<double>(curve.x.size(), 0.0)};
    chart.series.push_back({i == 0 ? comparison.first.name : comparison.second.name, i, band});
    low = std::min(low, *std::ranges::min_element(curve.y));
    high = std::max(high, *std::ranges::max_element(curve.y));
  }
  if (chart.series.empty() || !std::isfinite(low) || !std::isfinite(high)) return {};
  const double margin = high > low ? 0.05 * (high - low) : 0.5;
  chart.low = percent ? std::max(0.0, low - margin) : low - margin;
  chart.high = percent ? std::min(1.0, high + margin) : high + margin;
  return line_chart(chart);
}

std::string html_row(const std::array<std::string, 4>& cells) {
  std::string row = "<tr>";
  for (const std::string& cell : cells) row += fmt::format("<td>{}</td>", escape_html(cell));
  return row + "</tr>\n";
}

std::string html_table(const std::vector<std::array<std::string, 4>>& rows,
                       const RunComparison& comparison, const std::string& last) {
  std::string html = fmt::format(
      "<div "
      "class=\"wide\"><table><thead><tr><th></th><th>{}</th><th>{}</th><th>{}</th></tr></thead>"
      "<tbody>\n",
      escape_html(comparison.first.name), escape_html(comparison.second.name), last);
  for (const auto& row : rows) html += html_row(row);
  return html + "</tbody></table></div>\n";
}

}  // namespace

Result<RunComparison> compare(const RunRecord& first, const RunRecord& second) {
  pb::Job first_job;
  pb::Job second_job;
  TAUT_TRY(read_text(first.folder / "job.textproto", first_job));
  TAUT_TRY(read_text(second.folder / "job.textproto", second_job));
  return RunComparison{first, second, fields_of(first_job, second_job), figures_of(first, second)};
}

std::vector<std::string> comparison_lines(const RunComparison& comparison) {
  // A command line in the table would make all of its columns as wide.
  constexpr std::size_t kWidest = 32;
  std::vector<Row> rows{{"", comparison.first.name, comparison.second.name, "difference"}};
  std::vector<Row> long_rows;
  for (const FigurePair& pair : comparison.figures) {
    if (std::max(pair.first.size(), pair.second.size()) <= kWidest) {
      rows.push_back({pair.what, pair.first, pair.second, pair.difference});
    } else {
      long_rows.push_back({pair.what, comparison.first.name, pair.first});
      long_rows.push_back({"", comparison.second.name, pair.second});
    }
  }
  std::vector<std::string> lines = aligned(rows);
  lines.emplace_back();
  for (std::string& line : aligned(long_rows)) lines.push_back(std::move(line));
  if (!long_rows.empty()) lines.emplace_back();
  if (comparison.fields.empty()) {
    lines.emplace_back("the jobs do not differ");
    return lines;
  }
  lines.push_back(
      fmt::format("the jobs differ in {}:",
                  counted(static_cast<std::int64_t>(comparison.fields.size()), "field")));
  rows.clear();
  for (const FieldDifference& one : shown_of(comparison.fields)) {
    rows.push_back({"  " + one.field, one.first.empty() ? "-" : one.first,
                    one.second.empty() ? "-" : one.second});
  }
  for (std::string& line : aligned(rows)) lines.push_back(std::move(line));
  if (std::string rest = left_out_of(comparison.fields); !rest.empty()) {
    lines.push_back("  " + std::move(rest));
  }
  return lines;
}

std::string comparison_html(const RunComparison& comparison) {
  const auto& [first, second, fields, figures] = comparison;
  std::string html = html_head(fmt::format("{} and {}", first.name, second.name));
  html += fmt::format("<h1>{} and {}</h1>\n<ul class=\"legend\" aria-label=\"runs\">",
                      escape_html(first.name), escape_html(second.name));
  html += fmt::format("<li>{}{}</li><li>{}{}</li></ul>\n", swatch(0), escape_html(first.name),
                      swatch(1), escape_html(second.name));
  std::vector<std::array<std::string, 4>> rows;
  rows.reserve(std::max(figures.size(), fields.size()));
  for (const FigurePair& pair : figures) {
    rows.push_back({pair.what, pair.first, pair.second, pair.difference});
  }
  html += "<h2>Figures</h2>\n" + html_table(rows, comparison, "difference");
  html += "<h2>Fields of the jobs that differ</h2>\n";
  rows.clear();
  for (const FieldDifference& one : shown_of(fields)) {
    rows.push_back({one.field, one.first.empty() ? "–" : one.first,
                    one.second.empty() ? "–" : one.second, ""});
  }
  html += rows.empty() ? std::string("<p>None.</p>\n") : html_table(rows, comparison, "");
  if (const std::string rest = left_out_of(fields); !rest.empty()) {
    html += fmt::format("<p>{}</p>\n", rest);
  }
  html += "<h2>Curves</h2>\n<div class=\"charts\">\n";
  html += curve_chart(comparison, "Test accuracy", "test accuracy",
                      {test_curve(first, "accuracy"), test_curve(second, "accuracy")}, true);
  html += curve_chart(comparison, "Test loss", "test loss",
                      {test_curve(first, "loss"), test_curve(second, "loss")}, false);
  html += curve_chart(comparison, "Training loss, mean of the workers", "training loss",
                      {loss_curve(first), loss_curve(second)}, false);
  return html + "</div>\n</body>\n</html>\n";
}

}  // namespace taut::cli
