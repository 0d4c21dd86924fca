#include "cli/sweep/report/progress_table.hpp"

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

std::string plain(const Spread& spread, int digits, double factor = 1) {
  return spread.count == 0 ? "-" : plus_minus(spread, digits, "+-", factor);
}

/// "accuracy %"
std::string final_heading(const SweepMetric& metric) {
  return metric.is_share ? metric.name + " %" : metric.name;
}

std::string final_text(const PointFigures& point, const SweepMetric& metric) {
  return metric.is_share ? plain(point.final_value, 2, 100) : plain(point.final_value, 4);
}

const std::vector<bool> kRight = {false, true, true, true, true, true, true, true};

}  // namespace

SweepTable::SweepTable(const SweepPlan& plan, bool silent) : plan_(plan), silent_(silent) {}

void SweepTable::draw() {
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
      const bool now = std::ranges::any_of(
          running_, [&](const RunningRun& one) { return one.run->folder == run.folder; });
      runs += done != outcomes_.end() ? (done->result ? '#' : 'x') : (now ? '>' : '.');
    }
    rows.push_back({point.point.name() + ", " + point.point.group(), runs,
                    final_text(point, metric), plain(point.rate, 0),
                    plain(point.wait_share, 1, 100), plain(point.staleness, 2)});
  }
  std::vector<std::string> lines = aligned(rows, kRight);
  for (const RunningRun& one : running_) {
    lines.push_back(fmt::format("{} {}", one.run->folder, clock_time(one.seconds)));
    if (std::string progress = progress_in(one.log); !progress.empty()) {
      lines.push_back("  " + std::move(progress));
    }
  }
  if (!running_.empty()) lines.push_back(time_left());
  block_.show(lines);
}

/// "3 of 18 runs; left about 2:10"
std::string SweepTable::time_left() const {
  std::string line = fmt::format("{} of {} runs", outcomes_.size(), plan_.runs.size());
  if (runs_timed_ == 0) return line;
  const double each = runs_took_s_ / static_cast<double>(runs_timed_);
  double left = each * static_cast<double>(plan_.runs.size() - outcomes_.size());
  for (const RunningRun& one : running_) left -= std::min(one.seconds, each);
  left /= static_cast<double>(running_.size());
  return line + fmt::format("; left about {}", clock_time(std::max(0.0, left)));
}

void SweepTable::show_running(const std::vector<RunningRun>& running) {
  running_ = running;
  if (!live_ || steady_now() < next_draw_) return;
  next_draw_ = steady_now() + kBetweenDraws;
  draw();
}

void SweepTable::show_finished(const SweepOutcome& outcome, double took_s) {
  outcomes_.push_back(outcome);
  std::erase_if(running_,
                [&](const RunningRun& one) { return one.run->folder == outcome.run.folder; });
  std::string line =
      fmt::format("{}/{} {}: ", outcomes_.size(), plan_.runs.size(), outcome.run.folder);
  if (outcome.result) {
    line += fmt::format("{} {:.4f}, {:.0f} {}, waiting {:.1f} %, {:.1f} s", plan_.metric.name,
                        outcome.result->final_value, outcome.result->rate,
                        words_of(outcome.run.job).rate(), 100 * outcome.result->wait_share,
                        outcome.result->wall_s);
    if (took_s == 0) line += " (finished earlier)";
  } else {
    line += outcome.failure == kNotRun ? outcome.failure : "failed: " + outcome.failure;
  }
  if (took_s > 0) {
    runs_took_s_ += took_s;
    ++runs_timed_;
  }
  if (live_) {
    if (!outcome.result) block_.print_above({line});
    draw();
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
      rows.push_back({point.point.name() + ", " + point.point.group(), fmt::format("{}", seed),
                      time ? figure_text(time->seconds, 1) : "never",
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
  const auto groups = groups_of(report.points, metric);
  for (const auto& group : groups) {
    for (const PointFigures& point : group) {
      rows.push_back({point.point.name() + ", " + point.point.group(), plain(point.to_target_s, 1),
                      plain(point.to_target_clocks, 0), final_text(point, metric),
                      plain(point.rate, 0), plain(point.wait_share, 1, 100),
                      plain(point.staleness, 2)});
    }
  }
  std::vector<std::string> lines{""};
  for (std::string& line : aligned(rows, kRight)) lines.push_back(std::move(line));
  lines.emplace_back();
  for (const auto& group : groups) {
    const std::string before = groups.size() > 1 ? group.front().point.group() + ": " : "";
    const SweepVerdict found = verdict(group, report.target);
    if (!found.is_given) {
      for (std::string& line : every_run(group)) lines.push_back(std::move(line));
      lines.emplace_back();
    }
    if (std::string best = best_final(group, metric); !best.empty()) {
      lines.push_back(before + best);
    }
    lines.push_back(before + found.text);
    for (std::string& line : basis_of(group, report.target))
      lines.push_back("  " + std::move(line));
  }
  return lines;
}

}  // namespace taut::cli
