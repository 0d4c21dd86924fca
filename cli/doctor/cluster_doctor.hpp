#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include "cli/doctor/finding.hpp"
#include "cli/doctor/node_facts.hpp"
#include "common/result.hpp"
#include "proto/session/control_client.hpp"

namespace taut::cli {

/// Enough to get past a connection's slow start, and usually takes a fraction of a second.
inline constexpr std::uint32_t kUsualTransferBytes = 8U << 20U;
/// Processes take 25 s at most.
inline constexpr double kExamineWait_s = 40;

/// Sleeps briefly and checks whether to keep waiting. Errors: it must stop.
using LookAround = std::function<Result<void>()>;

/// Has every process examined and waits for the facts, which take some seconds.
/// transfer_bytes  that each process sends to each shard, to measure the link
/// Errors          as ControlClient::check_nodes(); those of `look_around`
[[nodiscard]] Result<ClusterFacts> examine_cluster(ControlClient& client, const JobNeeds& needs,
                                                   std::uint32_t transfer_bytes, double wait_s,
                                                   const LookAround& look_around);

/// Everything that follows from the facts.
[[nodiscard]] Findings judge_cluster(const ClusterFacts& cluster, const JobNeeds& needs,
                                     const std::string& own_build);

}  // namespace taut::cli
