#include "cli/sweep/progress_table.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <sstream>

#include "cli/views/draw.hpp"
#include "common/files/file.hpp"
#include "proto/config/job_words.hpp"

namespace taut::cli {
namespace {

constexpr Duration kBetweenDraws{500'000};

/// The last line that `tautline train` wrote about its iterations.
std::string progress_in(const std::filesystem::path& log) {
  const auto text = read_file(log);
  if (!text) return {};
  std::string last;
  std::istringstream lines(text.value());
  for (std::string line; std::getline(lines, line);) {
    if (line.starts_with("iteration ")) last = line;
  }
  return last;
}

std::string plus_minus(const Spread& spread, int digits, double factor = 1) {
  if (spread.count == 0) return "-";
  std::string text = fmt::format("{:.{}f}", factor * spread.mean, digits);
  if (spread.count > 1) text += fmt::format(" +- {:.{}f}", factor * spread.deviation, digits);
  return text;
}

/// "accuracy %"
std::string final_heading(const SweepMetric& metric) {
  return metric.is_share ? metric.name + " %" : metric.name;
}

std::string final_text(const PointFigures& point, const SweepMetric& metric) {
  return metric.is_share ? plus_minus(point.final_value, 2, 100) : plus_minus(point.final_value, 4);
}

const std::vector<bool> kRight = {false, true, true, true, true, true, true, true};

}  // namespace

SweepTable::SweepTable(const SweepPlan& plan, bool silent) : plan_(plan), silent_(silent) {}

void SweepTable::draw(const SweepRun* running, double seconds, const std::string& progress) {
  const SweepMetric& metric = plan_.metric;
  const auto figures = figures_of(plan_, outcomes_, {metric, 0, false});
  std::vector<Row> rows{
      {"", "runs", final_heading(metric), rate_of(figures), "waiting %", "staleness"}};
  for (std::size_t i = 0; i < figures.size(); ++i) {
    const PointFigures& point = figures[i];
    std::string runs;
    for (const SweepRun& run : plan_.runs) {
      if (run.point != i) continue;
      const auto done = std::find_if(
          outcomes_.begin(), outcomes_.end(),
          [&](const SweepOutcome& outcome) { return outcome.run.folder == run.folder; });
      const bool now = running != nullptr && running->folder == run.folder;
      runs += done != outcomes_.end() ? (done->result ? '#' : 'x') : (now ? '>' : '.');
    }
    rows.push_back({point.point.bound() + ", " + point.point.group(), runs,
                    final_text(point, metric), plus_minus(point.rate, 0),
                    plus_minus(point.wait_share, 1, 100), plus_minus(point.staleness, 2)});
  }
  std::vector<std::string> lines = aligned(rows, kRight);
  if (running != nullptr) {
    std::string line = fmt::format("{} of {} runs; {} {}", outcomes_.size(), plan_.runs.size(),
                                   running->folder, clock_time(seconds));
    if (runs_timed_ > 0) {
      const double each = runs_took_s_ / static_cast<double>(runs_timed_);
      const auto left = static_cast<double>(plan_.runs.size() - outcomes_.size());
      line += fmt::format("; left about {}", clock_time(std::max(0.0, each * left - seconds)));
    }
    lines.push_back(line);
    lines.push_back(progress);
  }
  block_.show(lines);
}

void SweepTable::show_running(const SweepRun& run, double seconds,
                              const std::filesystem::path& log) {
  running_s_ = seconds;
  if (!live_ || steady_now() < next_draw_) return;
  next_draw_ = steady_now() + kBetweenDraws;
  draw(&run, seconds, progress_in(log));
}

void SweepTable::show_finished(const SweepOutcome& outcome) {
  outcomes_.push_back(outcome);
  std::string line =
      fmt::format("{}/{} {}: ", outcomes_.size(), plan_.runs.size(), outcome.run.folder);
  if (outcome.result) {
    line += fmt::format("{} {:.4f}, {:.0f} {}, waiting {:.1f} %, {:.1f} s", plan_.metric.name,
                        outcome.result->final_value, outcome.result->rate,
                        words_of(outcome.run.job).rate(), 100 * outcome.result->wait_share,
                        outcome.result->wall_s);
    if (running_s_ == 0) line += " (finished earlier)";
  } else {
    line += outcome.failure == kNotRun ? outcome.failure : "failed: " + outcome.failure;
  }
  if (running_s_ > 0) {
    runs_took_s_ += running_s_;
    ++runs_timed_;
    running_s_ = 0;
  }
  if (live_) {
    if (!outcome.result) block_.print_above({line});
    draw(nullptr, 0, {});
    return;
  }
  if (silent_) return;
  fmt::print("{}\n", line);
  std::fflush(stdout);
}

namespace {

/// Each run's time to the target.
std::vector<std::string> every_run(const std::vector<PointFigures>& points) {
  std::vector<Row> rows{{"", "seed", "s to target", "clocks to target", "tests around it"}};
  for (const PointFigures& point : points) {
    for (const auto& [seed, time] : point.by_seed) {
      rows.push_back({point.point.bound() + ", " + point.point.group(), fmt::format("{}", seed),
                      time ? fmt::format("{:.1f}", time->seconds) : "never",
                      time ? fmt::format("{:.0f}", time->clocks) : "-",
                      time ? fmt::format("{}", time->tests_around) : "-"});
    }
  }
  if (rows.size() == 1) return {};
  return aligned(rows, kRight);
}

}  // namespace

std::vector<std::string> result_lines(const SweepReport& report) {
  const SweepMetric& metric = report.target.metric;
  std::vector<Row> rows{{"", "s to target", "clocks to target", final_heading(metric),
                         rate_of(report.points), "waiting %", "staleness"}};
  for (const PointFigures& point : report.points) {
    rows.push_back({point.point.bound() + ", " + point.point.group(),
                    plus_minus(point.to_target_s, 1), plus_minus(point.to_target_clocks, 0),
                    final_text(point, metric), plus_minus(point.rate, 0),
                    plus_minus(point.wait_share, 1, 100), plus_minus(point.staleness, 2)});
  }
  std::vector<std::string> lines{""};
  for (std::string& line : aligned(rows, kRight)) lines.push_back(std::move(line));
  lines.emplace_back();
  const auto groups = groups_of(report.points);
  for (const auto& group : groups) {
    const std::string before = groups.size() > 1 ? group.front().point.group() + ": " : "";
    const Verdict found = verdict(group, report.target);
    if (!found.is_given) {
      for (std::string& line : every_run(group)) lines.push_back(std::move(line));
      lines.emplace_back();
    }
    lines.push_back(before + found.text);
    for (std::string& line : basis_of(group, report.target))
      lines.push_back("  " + std::move(line));
  }
  return lines;
}

}  // namespace taut::cli
