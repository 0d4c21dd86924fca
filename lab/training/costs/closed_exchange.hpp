#pragma once

#include <cstdint>

#include "common/result.hpp"
#include "lab/training/topology.hpp"
#include "proto/job.pb.h"
#include "proto/lab.pb.h"
#include "worker/model/graph.hpp"

namespace taut::lab {

/// What a clock of workers takes that sum or average among themselves, in microseconds.
struct ExchangeEstimate {
  double busiest_us = 0;  // of the busiest link, for a clock of all workers
  double chain_us = 0;    // of the messages that follow from each other
  /// Whether the messages pass while the clock is computed; else they begin when the gradients of
  /// the first layers are there.
  bool overlaps = false;
  bool waits = true;  // for others' clocks
};

/// By the formulas of collective::cost_of() and exchange_cost(): steps in a row, each with the
/// latency between the first and the last worker, and the bytes of a rank. Of sums the chain is the
/// last bucket's, as the others pass during backward.
/// Errors    as Topology::make
/// REQUIRES: the job has an exchange at the workers.
[[nodiscard]] Result<ExchangeEstimate> closed_exchange(const pb::LabCluster& cluster,
                                                       const model::Graph& graph,
                                                       std::uint32_t servers, std::uint32_t workers,
                                                       const pb::Job& job);

}  // namespace taut::lab
