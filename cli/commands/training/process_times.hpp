#pragma once

#include <cstdint>

#include "common/result.hpp"
#include "lab/training/costs/calibrate.hpp"
#include "proto/job.pb.h"

namespace taut::cli {

/// Trains some hundred clocks with real processes on this machine, one server and so many workers
/// in lock-step, and says what they took of its processors: where they have fewer cores than there
/// are processes, also what a core does when it turns from one to another.
/// threads  that compute in each worker
/// Errors   as LocalCluster::start; the job's end, if it was not a good one
[[nodiscard]] Result<lab::ProcessTimes> measure_processes(const pb::Job& job, std::uint32_t threads,
                                                          std::uint32_t workers);

}  // namespace taut::cli
