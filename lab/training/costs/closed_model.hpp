#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "common/result.hpp"
#include "common/types.hpp"
#include "lab/training/topology.hpp"
#include "proto/job.pb.h"
#include "proto/lab.pb.h"
#include "worker/model/graph.hpp"

namespace taut::lab {

/// What a clock takes by a formula, in milliseconds.
struct ClosedEstimate {
  double compute_ms = 0;  // of a worker, with what it shares its cores with
  double spread_ms = 0;   // more, for the slowest of those that a read waits for
  double network_ms = 0;  // of the busiest link
  double server_ms = 0;   // of a shard's thread
  double exposed_ms = 0;  // until the first layer's parameters are there, which nothing hides
  double clock_ms = 0;    // of a worker
  /// What decides it: "compute", "stragglers", "network", "server", or "messages" that follow from
  /// each other, where workers exchange among themselves.
  std::string limit;
};

/// A job on a cluster, as a formula: computing, its spread over the workers that wait for each
/// other (the mean of the largest of so many draws; under a slack s of means over s + 1 clocks, or
/// meetings where workers average), bytes over the busiest link as the job's compression has them,
/// the shard's thread, and the round trip of the first layer; all of these divided by the clocks
/// between two meetings. Of a table by rows a worker moves as many as its batch may name. What
/// overlaps counts as the larger one.
/// Errors  as ComputeTimes::make and to_compression
/// batch   its records, of which a clock computes as many as the job's iter_size says
/// slack   unbounded: no worker waits for another
/// job     of whose workers closed_exchange() says what they take where they exchange among
///         themselves
[[nodiscard]] Result<ClosedEstimate> closed_estimate(const pb::LabCluster& cluster,
                                                     const Topology& topology,
                                                     const model::Graph& graph, std::int64_t batch,
                                                     std::uint32_t servers, std::uint32_t workers,
                                                     Slack slack, const pb::Job& job);

/// The mean of the largest of `count` draws of a clock's time over its mean, each the mean over so
/// many clocks.
[[nodiscard]] double mean_of_largest(const pb::LabCompute& compute, std::uint32_t count,
                                     std::int64_t clocks);

}  // namespace taut::lab
