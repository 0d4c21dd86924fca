#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "common/result.hpp"
#include "proto/config/text_places.hpp"
#include "proto/job.pb.h"
#include "proto/lab.pb.h"
#include "worker/model/graph.hpp"

namespace taut::lab {

/// A value of a cluster file that is valid on its own, but with which a job cannot be trained.
struct ClusterMisfit {
  std::vector<PlacedText::Step> steps;  // to the value
  std::string what;
};

/// Seconds between two heartbeats of a process, in a job of `workers` workers.
[[nodiscard]] double heartbeat_s(std::uint32_t workers);

/// The limit that those heartbeats would exceed without a loss; nullopt if it is long enough.
[[nodiscard]] std::optional<ClusterMisfit> heartbeat_misfit(const pb::LabControl& control,
                                                            std::uint32_t workers);

/// A layer that the net does not have, or missing times; nullopt if neither.
/// graph  the training net's
[[nodiscard]] std::optional<ClusterMisfit> times_misfit(const pb::LabCompute& compute,
                                                        const model::Graph& graph);

/// The first value of the cluster with which the job cannot be trained: of the heartbeats, the
/// times or a host's memory. Opens the job only if one of the last two depends on it.
/// Errors    as JobAssets::open() and Topology::make()
[[nodiscard]] Result<std::optional<ClusterMisfit>> cluster_misfit(const pb::Job& job,
                                                                  const pb::LabCluster& cluster,
                                                                  std::uint32_t servers);

}  // namespace taut::lab
