#include "cli/commands/training/lab_target.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <iterator>
#include <optional>
#include <string>
#include <vector>

#include "cli/sweep/metric.hpp"
#include "cli/views/draw.hpp"
#include "common/system/stop_signal.hpp"
#include "common/time.hpp"

namespace taut::cli {
namespace {

constexpr double kSecondsPerHour = 3600;

std::string test_text(const lab::LearningTarget& target, const lab::Playback::Test& test) {
  if (target.loss) return fmt::format("{:.4g}", test.loss);
  return fmt::format("{:.2f} %", 100 * test.accuracy.value_or(0));
}

double price_of(const lab::TargetRun& run) {
  return run.reached->at_s / kSecondsPerHour * run.price_per_hour;
}

std::string run_text(const lab::TargetRun& run, const lab::LearningTarget& target) {
  if (run.reached) {
    return fmt::format("{} after {} clocks, {:.3f} s", test_text(target, *run.reached),
                       run.reached->clock.value(), run.reached->at_s);
  }
  return fmt::format("not reached{}, at best {}", run.has_failed ? ", it failed" : "",
                     run.best ? test_text(target, *run.best) : "without a test");
}

void print_best_runs(const std::vector<lab::TargetRun>& runs) {
  std::vector<lab::TargetRun> reached;
  std::ranges::copy_if(runs, std::back_inserter(reached),
                       [](const lab::TargetRun& run) { return run.reached.has_value(); });
  if (reached.empty()) {
    fmt::print("none reaches the target; give more clocks (max_iter), or another target\n");
    return;
  }
  const auto print_one = [](const char* what, const lab::TargetRun& run) {
    fmt::print("{}: {} workers, slack {}: {:.4g} hours, price {:.4g}\n", what, run.workers,
               run.slack.to_string(), run.reached->at_s / kSecondsPerHour, price_of(run));
  };
  print_one("soonest", *std::ranges::min_element(
                           reached, {}, [](const auto& run) { return run.reached->at_s; }));
  const bool is_priced =
      std::ranges::any_of(reached, [](const auto& run) { return run.price_per_hour > 0; });
  if (is_priced) {
    print_one("cheapest", *std::ranges::min_element(reached, {}, price_of));
  } else {
    fmt::print("no host of the cluster file has a price_per_hour, so none is cheapest\n");
  }
}

void print_runs(const std::vector<lab::TargetRun>& runs, const lab::LearningTarget& target) {
  std::vector<Row> rows{{"workers", "slack", target.loss ? "loss" : "accuracy", "clocks", "seconds",
                         "hours", "price"}};
  for (const lab::TargetRun& run : runs) {
    Row& row = rows.emplace_back(Row{std::to_string(run.workers), run.slack.to_string()});
    if (run.reached) {
      row.insert(row.end(),
                 {test_text(target, *run.reached), std::to_string(run.reached->clock.value()),
                  fmt::format("{:.3f}", run.reached->at_s),
                  fmt::format("{:.4g}", run.reached->at_s / kSecondsPerHour),
                  fmt::format("{:.4g}", price_of(run))});
    } else {
      row.insert(row.end(), {run.best ? test_text(target, *run.best) : "-", "-", "-", "-", "-"});
    }
  }
  for (const std::string& line : aligned(rows, std::vector<bool>(rows.front().size(), true))) {
    fmt::print("{}\n", line);
  }
}

}  // namespace

Result<void> check_target(const pb::Job& job, const lab::LearningTarget& target) {
  if (job.solver_param().test_interval() <= 0) {
    return invalid("a target needs tests: set test_interval in the job's solver");
  }
  const char* const figure = target.loss ? "loss" : "accuracy";
  const auto metric = metric_of(figure, job);
  if (metric) return ok();
  return invalid(fmt::format("--target-{}: {}", figure, metric.error().message));
}

Result<void> print_target(const lab::ScalingOptions& options, const lab::LearningTarget& target) {
  const std::vector<Slack> slacks = lab::slacks_of(options);
  const double clocks = options.job.solver_param().max_iter();
  double left = 0;  // clocks of workers that must still be trained, at most
  for (const std::uint32_t workers : options.workers) {
    left += clocks * workers * static_cast<double>(slacks.size());
  }
  fmt::print(
      "\n{} trainings in the lab with real gradients, of up to {} clocks each, with a test "
      "each {} clocks\n",
      options.workers.size() * slacks.size(), options.job.solver_param().max_iter(),
      options.job.solver_param().test_interval());
  double trained = 0;
  const TimePoint began = steady_now();
  std::vector<lab::TargetRun> runs;
  for (const std::uint32_t workers : options.workers) {
    for (const Slack slack : slacks) {
      const TimePoint run_began = steady_now();
      TAUT_TRY(const lab::TargetRun run, lab::train_to_target(options, workers, slack, target,
                                                              [] { return stop_signal() == 0; }));
      const TimePoint now = steady_now();
      left -= clocks * workers;
      trained +=
          workers * (run.reached ? static_cast<double>(run.reached->clock.value()) + 1 : clocks);
      fmt::print(
          "{} workers, slack {}: {}; computed in {:.1f} s, the rest in at most about "
          "{:.0f} s\n",
          workers, slack.to_string(), run_text(run, target), seconds(now - run_began),
          seconds(now - began) / trained * left);
      std::fflush(stdout);
      runs.push_back(run);
    }
  }
  fmt::print("\n");
  print_runs(runs, target);
  print_best_runs(runs);
  fmt::print("of one seed: tautline sweep --lab --target compares several\n");
  return ok();
}

}  // namespace taut::cli
