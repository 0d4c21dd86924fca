#include "lab/schedule/report/figures.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numeric>

namespace taut::schedule {
namespace {

double mean_of(const std::vector<double>& values) {
  return std::accumulate(values.begin(), values.end(), 0.0) / static_cast<double>(values.size());
}

}  // namespace

double percentile(const std::vector<double>& ascending, double part) {
  const auto rank =
      static_cast<std::size_t>(std::ceil(part * static_cast<double>(ascending.size()) - 1e-9));
  return ascending[std::clamp<std::size_t>(rank, 1, ascending.size()) - 1];
}

Figures figures_of(const std::string& policy, std::span<const Job> jobs,
                   std::span<const double> fair_s, const SimulationResult& result) {
  std::vector<double> took;
  std::vector<double> fairness;
  double restarts = 0;
  for (std::size_t i = 0; i < jobs.size(); ++i) {
    took.push_back(result.jobs[i].ended_s - jobs[i].submit_s);
    fairness.push_back(took.back() / fair_s[i]);
    restarts += result.jobs[i].preemptions + result.jobs[i].changes;
  }
  std::ranges::sort(took);
  std::ranges::sort(fairness);
  const auto decisions = static_cast<double>(std::max<std::uint64_t>(1, result.decisions));
  return {.policy = policy,
          .jobs = jobs.size(),
          .mean_s = mean_of(took),
          .p50_s = percentile(took, 0.5),
          .p95_s = percentile(took, 0.95),
          .p99_s = percentile(took, 0.99),
          .makespan_s = result.makespan_s,
          .fairness_mean = mean_of(fairness),
          .fairness_p95 = percentile(fairness, 0.95),
          .fairness_max = fairness.back(),
          .utilization = (result.held_s - result.paused_s) / result.usable_s,
          .fragmentation = result.idle_wait_s / result.usable_s,
          .energy_kwh = result.joules / 3.6e6,
          .restarts = restarts / static_cast<double>(jobs.size()),
          .decide_ms = 1e3 * result.decide_s / decisions,
          .decide_max_ms = 1e3 * result.decide_max_s,
          .decisions = result.decisions};
}

std::string figures_csv(const std::vector<Figures>& figures) {
  std::string csv =
      "policy,jobs,mean_s,p50_s,p95_s,p99_s,makespan_s,fairness_mean,fairness_p95,fairness_max,"
      "utilization,fragmentation,energy_kwh,restarts,decisions\n";
  for (const Figures& one : figures) {
    csv += fmt::format(
        "{},{},{:.3f},{:.3f},{:.3f},{:.3f},{:.3f},{:.5f},{:.5f},{:.5f},{:.5f},{:.5f},{:.3f},{:.5f},"
        "{}\n",
        one.policy, one.jobs, one.mean_s, one.p50_s, one.p95_s, one.p99_s, one.makespan_s,
        one.fairness_mean, one.fairness_p95, one.fairness_max, one.utilization, one.fragmentation,
        one.energy_kwh, one.restarts, one.decisions);
  }
  return csv;
}

}  // namespace taut::schedule
