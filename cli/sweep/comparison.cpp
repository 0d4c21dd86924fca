#include "cli/sweep/comparison.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <cmath>

#include "proto/config/job_words.hpp"

namespace taut::cli {
namespace {

constexpr double kLevel = 0.05;

struct Extent {
  std::size_t least = std::numeric_limits<std::size_t>::max();
  std::size_t most = 0;

  void add(std::size_t value) {
    least = std::min(least, value);
    most = std::max(most, value);
  }
  [[nodiscard]] bool any() const { return least <= most; }
};

template <class Field>
Spread over_runs(const std::vector<RunResult>& runs, Field field) {
  std::vector<double> values;
  values.reserve(runs.size());
  for (const RunResult& run : runs) values.push_back(run.*field);
  return spread_of(values);
}

std::string percent(double share) {
  return fmt::format("{:.1f} %", 100 * share);
}

/// "5", or "5 to 9"
std::string range_of(std::size_t least, std::size_t most) {
  return least == most ? fmt::format("{}", least) : fmt::format("{} to {}", least, most);
}

std::string joined(const std::vector<std::string>& parts, const std::string& between) {
  std::string text;
  for (const std::string& part : parts) text += (text.empty() ? "" : between) + part;
  return text;
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

std::size_t seeds_needed(std::size_t bounds) {
  return differences_needed(std::max<std::size_t>(1, bounds * (bounds - 1) / 2), kLevel);
}

std::string too_few_seeds(const SweepPlan& plan, std::size_t seeds) {
  std::map<std::string, std::size_t> groups;
  for (const SweepPoint& point : plan.points) ++groups[point.group()];
  std::size_t most = 0;
  for (const auto& [name, count] : groups) most = std::max(most, count);
  if (most < 2 || seeds >= seeds_needed(most)) return {};
  return fmt::format("With {} {} there will be no verdict on {} {}s; with {} there can be one.",
                     seeds, seeds == 1 ? "seed" : "seeds", most, plan.points.front().kind(),
                     seeds_needed(most));
}

SweepTarget target_of(const SweepMetric& metric, std::optional<double> given,
                      const std::vector<SweepOutcome>& outcomes) {
  SweepTarget target{metric, given.value_or(0), given.has_value()};
  if (given) return target;
  std::optional<double> reached;
  for (const SweepOutcome& outcome : outcomes) {
    if (!outcome.result) continue;
    const double best = outcome.result->best_value;
    if (!reached || metric.better(*reached, best)) reached = best;
  }
  if (!reached) return target;
  constexpr double kSteps = 200;
  double step = 1 / kSteps;
  if (!metric.is_share && *reached != 0) {
    step = std::pow(10, std::floor(std::log10(std::abs(*reached))) - 1);
  }
  // A value that was rounded to such a step before must not move by another one.
  constexpr double kRounding = 1e-9;
  const double steps = *reached / step;
  target.value = step * (metric.higher_is_better ? std::floor(steps + kRounding)
                                                 : std::ceil(steps - kRounding));
  return target;
}

namespace {

std::optional<TargetTime> time_to(const SweepTarget& target, const RunResult& run) {
  const bool rises = target.metric.higher_is_better;
  const auto at = first_reaching(run.test_by_time, target.value, rises);
  if (!at) return std::nullopt;
  TargetTime time{*at, first_reaching(run.test_by_clock, target.value, rises).value_or(0), 0};
  time.tests_around = static_cast<std::size_t>(
      std::ranges::count_if(run.test_by_clock.x, [&](double x) { return x <= 2 * time.clocks; }));
  return time;
}

}  // namespace

std::vector<PointFigures> figures_of(const SweepPlan& plan,
                                     const std::vector<SweepOutcome>& outcomes,
                                     const SweepTarget& target) {
  std::vector<PointFigures> points;
  for (const SweepPoint& point : plan.points) points.emplace_back().point = point;
  for (const SweepOutcome& outcome : outcomes) {
    if (!outcome.result) continue;
    PointFigures& point = points[outcome.run.point];
    point.runs.push_back(*outcome.result);
    const auto at = time_to(target, *outcome.result);
    point.by_seed[outcome.run.seed] = at;
    if (!at) continue;
    point.seconds_to_target.push_back(at->seconds);
    point.clocks_to_target.push_back(at->clocks);
  }
  for (PointFigures& point : points) {
    point.final_value = over_runs(point.runs, &RunResult::final_value);
    point.rate = over_runs(point.runs, &RunResult::rate);
    point.wait_share = over_runs(point.runs, &RunResult::wait_share);
    point.staleness = over_runs(point.runs, &RunResult::mean_staleness);
    std::vector<double> test_shares;
    for (const RunResult& run : point.runs) {
      if (run.test_share) test_shares.push_back(*run.test_share);
    }
    point.test_share = spread_of(test_shares);
    point.to_target_s = spread_of(point.seconds_to_target);
    point.to_target_clocks = spread_of(point.clocks_to_target);
  }
  return points;
}

std::string kind_of(const std::vector<PointFigures>& points) {
  return points.empty() ? "bound" : points.front().point.kind();
}

std::string rate_of(const std::vector<PointFigures>& points) {
  return points.empty() ? JobWords().rate() : words_of(points.front().point.job).rate();
}

namespace {

/// Differences in seconds, b's time less a's, of the seeds that both have.
std::vector<double> differences(const PointFigures& a, const PointFigures& b) {
  std::vector<double> found;
  for (const auto& [seed, time] : a.by_seed) {
    const auto other = b.by_seed.find(seed);
    if (other == b.by_seed.end() || !time || !other->second) continue;
    found.push_back(other->second->seconds - time->seconds);
  }
  return found;
}

/// The least number of seeds that any pair of bounds has in common.
std::size_t paired_seeds(const std::vector<const PointFigures*>& bounds) {
  std::size_t least = bounds.front()->by_seed.size();
  for (std::size_t i = 0; i < bounds.size(); ++i) {
    for (std::size_t j = i + 1; j < bounds.size(); ++j) {
      least = std::min(least, differences(*bounds[i], *bounds[j]).size());
    }
  }
  return least;
}

/// The share of its runs' time that a point's tests take, if it is too much for the times to count;
/// empty if it is not.
std::string too_much_testing(const std::vector<const PointFigures*>& reached) {
  const auto share = [](const PointFigures* point) { return point->test_share.mean; };
  const PointFigures& most = **std::ranges::max_element(reached, {}, share);
  const double tests = most.test_share.mean;
  if (tests <= kMaxTestShare) return {};
  std::string reason = fmt::format(
      "tests that take {} of a run's time ({}), of which at most {:.0f} % leave it to the "
      "training",
      percent(tests), most.point.name(), 100 * kMaxTestShare);
  constexpr double kRounding = 1e-9;
  // With the training unchanged, tests may take kMaxTestShare of the whole.
  const double factor = kMaxTestShare / (1 - kMaxTestShare) * (1 - tests) / tests;
  const pb::SolverParameter& solver = most.point.job.solver_param();
  const int given = solver.test_iter_size() > 0 ? solver.test_iter(0) : 0;
  const int fewer = static_cast<int>(factor * given + kRounding);
  reason += fewer > 0 ? fmt::format(" (a test_iter of at most {}, or ", fewer) : " (";
  return reason +
         fmt::format(
             "a target that takes {:g} times as many clocks, with the same number of tests)",
             std::ceil(10 / factor - kRounding) / 10);
}

/// Why the runs give no verdict; empty if they give one.
std::string obstacles(const std::vector<const PointFigures*>& reached) {
  std::vector<std::string> reasons;
  const std::size_t seeds = paired_seeds(reached);
  if (const std::size_t needed = seeds_needed(reached.size()); seeds < needed) {
    reasons.push_back(fmt::format(
        "{} {}, of which at least {} are needed to tell a lead{} from chance", seeds,
        seeds == 1 ? "seed" : "seeds", needed,
        reached.size() > 2
            ? fmt::format(" among {} {}s", reached.size(), reached.front()->point.kind())
            : ""));
  }
  Extent around;
  double soonest = std::numeric_limits<double>::max();
  for (const PointFigures* point : reached) {
    for (const auto& [seed, time] : point->by_seed) {
      around.add(time->tests_around);
      soonest = std::min(soonest, time->clocks);
    }
  }
  if (around.least < kTestsNeeded) {
    std::string reason = fmt::format(
        "{} tests from a run's start to twice the clocks that the target takes, of which at least "
        "{} "
        "are needed to place it",
        range_of(around.least, around.most), kTestsNeeded);
    const auto interval = static_cast<std::int64_t>(2 * soonest / kTestsNeeded);
    reason += interval > 0 ? fmt::format(" (a test_interval of at most {})", interval)
                           : " (a target that takes longer)";
    reasons.push_back(std::move(reason));
  }
  if (std::string reason = too_much_testing(reached); !reason.empty()) {
    reasons.push_back(std::move(reason));
  }
  const bool shared = std::ranges::any_of(reached, [](const PointFigures* point) {
    return std::ranges::any_of(point->runs,
                               [](const RunResult& run) { return run.company.shares_cores(); });
  });
  if (shared) {
    reasons.emplace_back("runs at the same time that shared cores, whose times are not comparable");
  }
  return reasons.empty() ? "" : "No verdict: " + joined(reasons, "; ");
}

/// The soonest bound compared with each other one. p-values are corrected for all pairs.
std::vector<PairedTest> paired_tests(const std::vector<const PointFigures*>& bounds) {
  std::vector<double> p;
  std::vector<PairedTest> tests;
  for (std::size_t i = 0; i < bounds.size(); ++i) {
    for (std::size_t j = i + 1; j < bounds.size(); ++j) {
      const std::vector<double> later = differences(*bounds[i], *bounds[j]);
      p.push_back(sign_flip_p(later));
      if (i > 0) continue;
      tests.push_back({bounds[j]->point.name(), later.size(), spread_of(later).mean, 1});
    }
  }
  const std::vector<double> adjusted = holm_adjusted(p);
  for (std::size_t i = 0; i < tests.size(); ++i) tests[i].p = adjusted[i];
  return tests;
}

std::string capitalized(std::string name) {
  name[0] = static_cast<char>(std::toupper(static_cast<unsigned char>(name[0])));
  return name;
}

/// Why there is nothing to compare; empty if there is something.
std::string nothing_to_compare(const std::vector<PointFigures>& points,
                               const std::vector<const PointFigures*>& reached,
                               const SweepTarget& target) {
  const auto has_run = [](const PointFigures& point) { return !point.runs.empty(); };
  if (std::none_of(points.begin(), points.end(), has_run)) {
    return "No run has finished, so there is nothing to compare.";
  }
  if (!target.is_fixed && !target.is_late && target.metric.is_share && target.value <= 0) {
    return fmt::format(
        "No verdict: a run's best {} rounds to 0 %, so there is no target that every run reached.",
        target.metric.title());
  }
  if (!reached.empty()) return {};
  return fmt::format("No {} reached {} in all of its runs.", points.front().point.kind(),
                     target.text());
}

/// By how much the soonest leads, and over which others that is more than noise.
/// second_s  the mean time of the second
std::string lead_text(const std::vector<PairedTest>& tests, double second_s) {
  const PairedTest& second = tests[0];
  std::string text = fmt::format(", {} s ({}) before {}; that lead is {} the noise (p = {:.2g})",
                                 figure_text(second.later_s, 1), percent(second.later_s / second_s),
                                 second.name, second.p < kLevel ? "beyond" : "within", second.p);
  std::vector<std::string> beyond;
  for (std::size_t i = 1; i < tests.size(); ++i) {
    const PairedTest& test = tests[i];
    if (test.p >= kLevel) continue;
    beyond.push_back(fmt::format("{} ({} s later, p = {:.2g})", test.name,
                                 figure_text(test.later_s, 1), test.p));
  }
  if (!beyond.empty()) text += fmt::format(", its lead over {} is beyond it", list_of(beyond));
  return text;
}

}  // namespace

SweepVerdict verdict(const std::vector<PointFigures>& points, const SweepTarget& target) {
  std::vector<const PointFigures*> reached;
  std::vector<std::string> never;
  for (const PointFigures& point : points) {
    if (point.always_reached()) {
      reached.push_back(&point);
    } else {
      never.push_back(point.point.name());
    }
  }
  if (std::string why = nothing_to_compare(points, reached, target); !why.empty()) {
    return {std::move(why), false, {}};
  }
  const std::string others =
      never.empty() ? ""
                    : fmt::format(" ({} did not always reach {})", list_of(never), target.text());
  if (const std::string why = obstacles(reached); !why.empty()) {
    return {why + ". Every run is listed." + others, false, {}};
  }
  std::stable_sort(reached.begin(), reached.end(), [](const auto* a, const auto* b) {
    return a->to_target_s.mean < b->to_target_s.mean;
  });
  const PointFigures& best = *reached[0];
  SweepVerdict found{
      fmt::format("{} reached {} soonest, in {} s on average over {} seeds{}",
                  capitalized(best.point.name()), target.text(),
                  figure_text(best.to_target_s.mean, 1), best.to_target_s.count, others),
      true, paired_tests(reached)};
  if (reached.size() > 1) {
    found.text += lead_text(found.tests, reached[1]->to_target_s.mean);
  } else if (points.size() > 1) {
    found.text += fmt::format("; no other {} always did", best.point.kind());
  }
  found.text += ".";
  return found;
}

std::string best_final(const std::vector<PointFigures>& points, const SweepMetric& metric) {
  const PointFigures* best = nullptr;
  for (const PointFigures& point : points) {
    if (!point.point.is_by_setting || point.runs.empty()) continue;
    if (best == nullptr || metric.better(point.final_value.mean, best->final_value.mean)) {
      best = &point;
    }
  }
  if (best == nullptr) return {};
  const std::size_t seeds = best->runs.size();
  return fmt::format("The best final {} is {}, with {}: the mean over {} {}, of the best of {}.",
                     metric.title(), metric.text(best->final_value.mean), best->point.name(), seeds,
                     seeds == 1 ? "seed" : "seeds", points.size());
}

namespace {

/// "tests take 2.1 % of a run's time (BSP) to 4.0 % (async)"; empty without runs.
std::string test_shares(const std::vector<PointFigures>& points) {
  std::vector<const PointFigures*> known;
  bool any = false;
  for (const PointFigures& point : points) {
    any = any || !point.runs.empty();
    if (point.test_share.count > 0) known.push_back(&point);
  }
  if (!any) return {};
  if (known.empty()) return "tests' share of a run's time: not in its records";
  const auto [least, most] = std::ranges::minmax_element(
      known, {}, [](const PointFigures* point) { return point->test_share.mean; });
  std::string line = "tests' share of a run's time: " + percent((*least)->test_share.mean);
  if (known.size() == 1) return line;
  return line + fmt::format(" ({}) to {} ({})", (*least)->point.name(),
                            percent((*most)->test_share.mean), (*most)->point.name());
}

}  // namespace

std::vector<std::string> basis_of(const std::vector<PointFigures>& points,
                                  const SweepTarget& target) {
  const SweepMetric& metric = target.metric;
  std::vector<std::string> lines{
      fmt::format("target: {}, {}", target.text(),
                  target.is_fixed ? "fixed before the runs"
                  : target.is_late
                      ? "given after the runs"
                      : fmt::format("chosen after the runs: the {} that every run reached, rounded",
                                    metric.higher_is_better ? "highest" : "lowest"))};
  Extent tests;
  Extent around;
  for (const PointFigures& point : points) {
    for (const RunResult& run : point.runs) tests.add(run.test_by_clock.x.size());
    for (const auto& [seed, time] : point.by_seed) {
      if (time) around.add(time->tests_around);
    }
  }
  if (tests.any()) {
    std::string line = "tests of a run: " + range_of(tests.least, tests.most);
    if (around.any())
      line += fmt::format(", {} around the target", range_of(around.least, around.most));
    lines.push_back(std::move(line));
  }
  if (std::string line = test_shares(points); !line.empty()) lines.push_back(std::move(line));
  if (metric.test_records > 0) {
    std::string line = fmt::format("records of a test: {}", metric.test_records);
    if (const double error = metric.test_error(target.value); error > 0) {
      line += fmt::format(
          ", which alone gives a value near the target a standard error of {:.2f} % (binomial); "
          "the same records in every run",
          100 * error);
    }
    lines.push_back(std::move(line));
  }
  return lines;
}

}  // namespace taut::cli
