#pragma once

#include <cstdint>
#include <filesystem>

#include "common/result.hpp"
#include "proto/job.pb.h"
#include "worker/backend/backend.hpp"

namespace taut::worker {

/// Runs a job in this process, without a server, and prints what came out: the same loop, data and
/// sums as `replicas` workers under BSP. The baseline for speed and for bits.
/// Errors    as run_job
/// Thread    main
[[nodiscard]] Result<void> run_locally(const pb::Job& job, Backend& backend,
                                       std::uint32_t replicas);

}  // namespace taut::worker
