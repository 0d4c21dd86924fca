#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "lab/schedule/trace.hpp"

namespace taut::schedule {

/// How a workload is drawn without a trace. Jobs arrive at random and independently of each other
/// (Poisson), at the rate at which they take `load` of the devices.
struct WorkloadRequest {
  std::string distribution;  // of workload_names()
  std::uint32_t jobs = 1000;
  double load = 0.8;
  std::uint32_t devices = 64;      // that the load is for
  std::uint32_t max_workers = 64;  // larger jobs are reduced to this many
  std::uint64_t seed = 1;
};

/// "gavel": durations of 10^x minutes, x uniform in [1.5, 3] for 80 % of the jobs and in [3, 4] for
/// the others; 1 device for 70 %, 2 or 4 for 25 %, 8 for 5 %.
/// Source    Narayanan et al., "Heterogeneity-Aware Cluster Scheduling Policies for Deep Learning
///           Workloads", OSDI 2020, section 7.1
/// "pollux": device-hours uniform in the logarithm within 0.05 to 1 for 72 % of the jobs, 1 to 10
/// for 20 %, 10 to 100 for 6 %, 100 to 1000 for 2 %; devices 1, 4, 8, 16 by class. The classes and
/// their shares are the paper's; the devices and the lower end of the first class are assumptions.
/// Source    Qiao et al., "Pollux: Co-adaptive Cluster Scheduling for Goodput-Optimized Deep
///           Learning", OSDI 2021, section 5.1
[[nodiscard]] const std::vector<std::string>& workload_names();

/// The same request gives the same jobs. REQUIRES a name of workload_names(), load and jobs > 0.
[[nodiscard]] Trace make_workload(const WorkloadRequest& request);

}  // namespace taut::schedule
