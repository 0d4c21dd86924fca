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

/// A value of a cluster file that is right by itself, and that a job cannot be trained with.
struct ClusterMisfit {
  std::vector<PlacedText::Step> steps;  // to the value
  std::string what;
};

/// Seconds between two heartbeats of a process, where a job has so many workers.
[[nodiscard]] double heartbeat_s(std::uint32_t workers);

/// A limit that those heartbeats would pass without a loss; nullopt: it is long enough.
[[nodiscard]] std::optional<ClusterMisfit> heartbeat_misfit(const pb::LabControl& control,
                                                            std::uint32_t workers);

/// A layer that the net does not have, or no times at all; nullopt: neither.
/// graph  the training net's
[[nodiscard]] std::optional<ClusterMisfit> times_misfit(const pb::LabCompute& compute,
                                                        const model::Graph& graph);

/// The first value of the cluster that the job cannot be trained with: of the heartbeats, the times
/// or a host's memory. Opens the job only if one of the last two depends on it.
/// Errors    as JobAssets::open() and Topology::make()
[[nodiscard]] Result<std::optional<ClusterMisfit>> cluster_misfit(const pb::Job& job,
                                                                  const pb::LabCluster& cluster,
                                                                  std::uint32_t servers);

}  // namespace taut::lab
