#pragma once

#include <cstdint>

#include "common/result.hpp"
#include "proto/job.pb.h"
#include "proto/lab.pb.h"

namespace taut::lab {

/// Measures this machine for a job: each layer's forward and backward, the making of a batch, what
/// messages take of shards and workers, and the way between two processes. Takes some seconds.
/// threads  that compute
/// Returns  a cluster of this machine alone
/// Errors   as run_training
[[nodiscard]] Result<pb::LabCluster> calibrate(const pb::Job& job, std::uint32_t threads);

}  // namespace taut::lab
