#pragma once

#include <cstdint>

#include "common/result.hpp"
#include "lab/training/costs/compute_times.hpp"
#include "lab/training/topology.hpp"
#include "proto/job.pb.h"
#include "proto/lab.pb.h"
#include "worker/model/graph.hpp"

namespace taut::lab {

/// The time of a clock of workers that sum or average among themselves, in microseconds.
struct ExchangeEstimate {
  double busiest_us = 0;  // of the busiest link, for a clock of all workers
  /// Of the messages that depend on each other; for sums, what is left of them after backward.
  double chain_us = 0;
  /// Whether the messages pass while the clock is computed, from its start on.
  bool overlaps = false;
  bool waits = true;  // for others' clocks
};

/// By the formulas of collective::cost_of() and exchange_cost(): sequential steps, each with the
/// way between the first and the last worker, and a rank's bytes divided by the steps. Sums begin
/// bucket by bucket while backward is computed.
/// scale     factor on the compute times in `times`
/// Errors    as Topology::make()
/// REQUIRES: the job has an exchange at the workers.
[[nodiscard]] Result<ExchangeEstimate> closed_exchange(const pb::LabCluster& cluster,
                                                       const model::Graph& graph,
                                                       std::uint32_t servers, std::uint32_t workers,
                                                       const pb::Job& job,
                                                       const ComputeTimes& times, double scale);

}  // namespace taut::lab
