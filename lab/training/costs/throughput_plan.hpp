#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "common/result.hpp"
#include "lab/training/costs/scaling.hpp"

namespace taut::lab {

/// A job's rate on hosts of a single kind.
struct KindRate {
  std::string kind;     // LabHost::name
  bool across = false;  // on as few hosts as the workers fit on, but at least two; false: on one
  std::uint32_t workers = 1;
  double iterations_per_s = 0;  // of all workers; with global_batch of their shared batch
};

struct ThroughputPlan {
  std::string net;
  std::vector<KindRate> rates;  // by kind, on one host first, by workers
};

/// Rates with each of the options' numbers of workers for which a kind has places: one worker for
/// each of its devices, or for each place of a host without devices. Servers are where the cluster
/// file places them. With `checks` the rates are the lab's, otherwise the formula's.
/// Errors    as run_training(); invalid: several slacks
[[nodiscard]] Result<ThroughputPlan> plan_throughput(const ScalingOptions& options);

}  // namespace taut::lab
