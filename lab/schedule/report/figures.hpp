#pragma once

#include <span>
#include <string>
#include <vector>

#include "lab/schedule/simulator.hpp"

namespace taut::schedule {

/// The figures by which policies are compared.
struct Figures {
  std::string policy;
  std::size_t jobs = 0;
  // Completion time of a job: from its submission to its end.
  double mean_s = 0;
  double p50_s = 0;
  double p95_s = 0;
  double p99_s = 0;
  double makespan_s = 0;
  // Finish-time fairness of a job: its completion time divided by that of fair_share_s().
  double fairness_mean = 0;
  double fairness_p95 = 0;
  double fairness_max = 0;
  double utilization = 0;    // of all device-time: jobs had the device and made progress
  double fragmentation = 0;  // of all device-time: no job had the device, although jobs waited
  double energy_kwh = 0;
  double restarts = 0;       // of a job, on average: stopped and started again, or resized
  double decide_ms = 0;      // of this machine's time, for a decision
  double decide_max_ms = 0;  // the longest one
  std::uint64_t decisions = 0;
};

/// fair_s   as from fair_share_s()
/// Source   of fairness: Mahajan et al., "Themis: Fair and Efficient GPU Cluster Scheduling", NSDI
///          2020, section 4; what a job may expect is defined by fair_share_s() here
[[nodiscard]] Figures figures_of(const std::string& policy, std::span<const Job> jobs,
                                 std::span<const double> fair_s, const SimulationResult& result);

/// The value that a share `part` of the values do not exceed. REQUIRES values, ascending.
[[nodiscard]] double percentile(const std::vector<double>& ascending, double part);

/// A line of column names, and one for each policy. Omits this machine's times: the same run gives
/// the same bytes.
[[nodiscard]] std::string figures_csv(const std::vector<Figures>& figures);

}  // namespace taut::schedule
