#pragma once

#include <string>

#include "cli/doctor/finding.hpp"
#include "cli/doctor/node_facts.hpp"
#include "common/result.hpp"
#include "proto/session/control_client.hpp"

namespace taut::cli {

/// Has every process examined and waits for the facts, which take some seconds.
/// transfer_bytes  that each process sends to each shard, to measure the link
/// Errors          as ControlClient::check_nodes
[[nodiscard]] Result<ClusterFacts> examine_cluster(ControlClient& client, const JobNeeds& needs,
                                                   std::uint32_t transfer_bytes, double wait_s);

/// All that the facts say.
[[nodiscard]] Findings judge_cluster(const ClusterFacts& cluster, const JobNeeds& needs,
                                     const std::string& own_build);

}  // namespace taut::cli
