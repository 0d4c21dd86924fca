#pragma once

#include <cstdint>
#include <optional>

#include "common/result.hpp"
#include "proto/job.pb.h"
#include "proto/lab.pb.h"

namespace taut::lab {

/// The processor time of real processes for a worker's clock, in lock-step.
struct ProcessTimes {
  std::uint32_t workers = 1;  // that trained together
  double worker_us = 0;       // of a worker's process, with all of its threads
  double server_us = 0;       // of the server's process, for one worker
};

/// The job as it is measured: in lock-step with servers, without tests, stragglers or checkpoints.
[[nodiscard]] pb::Job job_to_measure(pb::Job job, std::uint32_t workers);

/// Measures this machine for a job: each layer's forward and backward, making a batch, the costs of
/// messages at shards and workers, and the way between two processes. Takes some seconds.
/// threads    that compute
/// processes  if given, messages are scaled to what is left of these times without the compute
/// Returns  a cluster of this machine alone
/// Errors   as run_training()
[[nodiscard]] Result<pb::LabCluster> calibrate(const pb::Job& job, std::uint32_t threads,
                                               const std::optional<ProcessTimes>& processes);

}  // namespace taut::lab
