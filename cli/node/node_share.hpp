#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "cli/daemon_group.hpp"
#include "cli/node/node_place.hpp"
#include "cli/node/node_run.hpp"
#include "common/result.hpp"

namespace taut::cli {

/// What one node contributes to its run.
struct NodeShare {
  std::uint32_t servers = 0;
  std::uint32_t workers = 0;
  std::vector<std::uint32_t> devices{};  // CUDA devices for its workers, in turn; empty: none
};

/// Divides a machine's devices among the ranks that share it: this one gets every local_count-th.
/// devices   how many of the machine's devices this process may use
[[nodiscard]] NodeShare share_of(const NodeOptions& options, const NodePlace& place,
                                 std::uint32_t devices);

/// The part of the configuration that all daemons of a run have in common.
[[nodiscard]] pb::ClusterConfig common_config(const NodeOptions& options,
                                              const std::string& coordinator,
                                              const std::string& folder);

/// Starts the node's servers and workers, "node2-server0", "node2-worker0" and so on.
/// address   of this node, where its servers listen
[[nodiscard]] Result<void> start_share(const NodeShare& share, const NodeOptions& options,
                                       std::uint32_t rank, const std::string& address,
                                       const pb::ClusterConfig& common, DaemonGroup& daemons);

}  // namespace taut::cli
