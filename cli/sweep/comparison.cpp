#include "cli/sweep/comparison.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <cmath>

#include "cli/views/job_words.hpp"

namespace taut::cli {
namespace {

constexpr double kLevel = 0.05;

template <class Field>
Spread over_runs(const std::vector<RunResult>& runs, Field field) {
  std::vector<double> values;
  for (const RunResult& run : runs) values.push_back(run.*field);
  return spread_of(values);
}

std::string percent(double share) {
  return fmt::format("{:.1f} %", 100 * share);
}

/// "slack 1 and async"
std::string list_of(const std::vector<std::string>& names) {
  std::string text;
  for (std::size_t i = 0; i < names.size(); ++i) {
    if (i > 0) text += i + 1 == names.size() ? " and " : ", ";
    text += names[i];
  }
  return text;
}

}  // namespace

double target_of(std::optional<double> given, const std::vector<SweepOutcome>& outcomes) {
  if (given) return *given;
  double reached = 1;
  bool any = false;
  for (const SweepOutcome& outcome : outcomes) {
    if (!outcome.result) continue;
    any = true;
    reached = std::min(reached, outcome.result->best_accuracy);
  }
  constexpr double kSteps = 200;
  return any ? std::floor(reached * kSteps) / kSteps : 0;
}

std::vector<PointFigures> figures_of(const SweepPlan& plan,
                                     const std::vector<SweepOutcome>& outcomes, double target) {
  std::vector<PointFigures> points;
  for (const SweepPoint& point : plan.points) points.emplace_back().point = point;
  for (const SweepOutcome& outcome : outcomes) {
    if (!outcome.result) continue;
    PointFigures& point = points[outcome.run.point];
    point.runs.push_back(*outcome.result);
    const auto at = first_reaching(outcome.result->accuracy_by_time, target);
    if (!at) continue;
    point.seconds_to_target.push_back(*at);
    point.clocks_to_target.push_back(
        first_reaching(outcome.result->accuracy_by_clock, target).value_or(0));
  }
  for (PointFigures& point : points) {
    point.accuracy = over_runs(point.runs, &RunResult::final_accuracy);
    point.images_per_second = over_runs(point.runs, &RunResult::images_per_second);
    point.wait_share = over_runs(point.runs, &RunResult::wait_share);
    point.staleness = over_runs(point.runs, &RunResult::mean_staleness);
    point.to_target_s = spread_of(point.seconds_to_target);
    point.to_target_clocks = spread_of(point.clocks_to_target);
  }
  return points;
}

std::string rate_of(const std::vector<PointFigures>& points) {
  return points.empty() ? JobWords().rate() : words_of(points.front().point.job).rate();
}

std::string verdict(const std::vector<PointFigures>& points, double target) {
  std::vector<const PointFigures*> reached;
  std::vector<std::string> never;
  for (const PointFigures& point : points) {
    if (point.always_reached()) {
      reached.push_back(&point);
    } else {
      never.push_back(point.point.bound());
    }
  }
  const auto has_run = [](const PointFigures& point) { return !point.runs.empty(); };
  if (std::none_of(points.begin(), points.end(), has_run)) {
    return "No run has finished, so there is nothing to compare.";
  }
  if (reached.empty()) {
    return fmt::format("No bound reached {} test accuracy in all of its runs.", percent(target));
  }
  std::stable_sort(reached.begin(), reached.end(), [](const auto* a, const auto* b) {
    return a->to_target_s.mean < b->to_target_s.mean;
  });
  const PointFigures& best = *reached[0];
  std::string name = best.point.bound();
  name[0] = static_cast<char>(std::toupper(static_cast<unsigned char>(name[0])));
  std::string text = fmt::format("{} reached {} test accuracy soonest, in {:.1f} s", name,
                                 percent(target), best.to_target_s.mean);
  if (best.to_target_s.count > 1) {
    text += fmt::format(" on average over {} seeds", best.to_target_s.count);
  }
  if (!never.empty()) text += fmt::format(" ({} did not always reach it)", list_of(never));
  if (reached.size() == 1) return text + "; no other bound did.";

  const PointFigures& second = *reached[1];
  const double ahead = second.to_target_s.mean - best.to_target_s.mean;
  text += fmt::format(", {:.1f} s ({}) before {}", ahead, percent(ahead / second.to_target_s.mean),
                      second.point.bound());
  std::vector<double> p;
  bool testable = true;
  for (std::size_t i = 1; i < reached.size(); ++i) {
    p.push_back(welch_p(best.to_target_s, reached[i]->to_target_s));
    testable = testable && reached[i]->to_target_s.count > 1 && best.to_target_s.count > 1;
  }
  if (!testable) return text + "; one seed tells nothing about the noise.";
  const std::vector<double> adjusted = holm_adjusted(p);
  text += fmt::format("; that lead is {} the noise (p = {:.2g})",
                      adjusted[0] < kLevel ? "beyond" : "within", adjusted[0]);
  std::vector<std::string> beyond;
  for (std::size_t i = 1; i < adjusted.size(); ++i) {
    if (adjusted[i] < kLevel) {
      beyond.push_back(fmt::format("{} ({:.1f} s later, p = {:.2g})", reached[i + 1]->point.bound(),
                                   reached[i + 1]->to_target_s.mean - best.to_target_s.mean,
                                   adjusted[i]));
    }
  }
  if (!beyond.empty()) text += fmt::format(", its lead over {} is beyond it", list_of(beyond));
  return text + ".";
}

}  // namespace taut::cli
