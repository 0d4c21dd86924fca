#pragma once

#include <cstdint>

#include "common/result.hpp"
#include "lab/training/costs/calibrate.hpp"
#include "proto/job.pb.h"

namespace taut::cli {

/// Trains some hundred clocks with real processes on this machine, one server and `workers` workers
/// in lock-step, and returns the processor time that they took. If there are fewer cores than
/// processes, this includes what a core does when it switches between them.
/// threads  compute threads of each worker
/// Errors   as LocalCluster::start(); the job's end, if it did not end well
[[nodiscard]] Result<lab::ProcessTimes> measure_processes(const pb::Job& job, std::uint32_t threads,
                                                          std::uint32_t workers);

}  // namespace taut::cli
