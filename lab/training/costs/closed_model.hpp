#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "common/result.hpp"
#include "common/types.hpp"
#include "lab/training/topology.hpp"
#include "proto/job.pb.h"
#include "proto/lab.pb.h"
#include "worker/collective/gossip_graph.hpp"
#include "worker/model/graph.hpp"

namespace taut::lab {

/// The time of a clock by a formula, in milliseconds.
struct ClosedEstimate {
  double compute_ms = 0;  // of a worker, slowed by what shares its cores
  double spread_ms = 0;   // in addition, for the slowest worker that a read waits for
  double network_ms = 0;  // of the busiest link
  double server_ms = 0;   // of a shard's thread
  double exposed_ms = 0;  // until the first layer's parameters arrive, which nothing hides
  double clock_ms = 0;    // of a worker
  /// What limits it: "compute", "stragglers", "network", "server", or "messages" that depend on
  /// each other, where workers exchange among themselves.
  std::string limit;
};

/// A job on a cluster, as a formula: computing, its spread over the workers that wait for each
/// other (mean_under_bound(), mean_with_neighbours()), bytes over the busiest link as the job's
/// compression encodes them, the shard's thread, and the round trip of the first layer; all of
/// these divided by the clocks between two meetings. Of a table by rows a worker moves as many rows
/// as its batch may name. Of parts that overlap, the larger one counts.
/// Errors  as ComputeTimes::make() and to_compression()
/// batch   its records; a clock computes the job's iter_size batches
/// slack   unbounded: no worker waits for another
/// job     if its workers exchange among themselves, closed_exchange() gives their time
[[nodiscard]] Result<ClosedEstimate> closed_estimate(const pb::LabCluster& cluster,
                                                     const Topology& topology,
                                                     const model::Graph& graph, std::int64_t batch,
                                                     std::uint32_t servers, std::uint32_t workers,
                                                     Slack slack, const pb::Job& job);

/// How long a worker's clock takes, over the mean of its computing, once workers have spread as far
/// as the bound lets them: a worker begins an interval once all have ended those that it may not be
/// ahead of. In lock-step with an interval of 1 it is the mean of the largest of `workers` draws.
/// interval  clocks between two exchanges with the servers
[[nodiscard]] double mean_under_bound(const pb::LabCompute& compute, std::uint32_t workers,
                                      std::int64_t interval, Slack slack);

/// As mean_under_bound(), for workers that average with their neighbours: one ends a clock once all
/// whose values it receives have begun it.
[[nodiscard]] double mean_with_neighbours(const pb::LabCompute& compute, std::uint32_t workers,
                                          collective::Graph graph);

}  // namespace taut::lab
