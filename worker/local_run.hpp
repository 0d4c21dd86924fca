#pragma once

#include <cstdint>
#include <string>

#include "common/result.hpp"
#include "common/types.hpp"
#include "proto/job.pb.h"
#include "worker/backend/backend.hpp"

namespace taut::worker {

struct LocalRunOptions {
  std::uint32_t replicas = 1;
  Bytes budget{0};         // of device memory; 0: what the device has
  bool only_plan = false;  // print how the training keeps to the budget, and do not train
  std::string records;     // a folder for metrics.csv; empty: nothing is written down
};

/// Runs a job in this process, without a server, and prints what came out: the same loop, data and
/// sums as `replicas` workers under BSP. The baseline for speed and for bits.
/// Errors    as run_job
/// Thread    main
[[nodiscard]] Result<void> run_locally(const pb::Job& job, Backend& device,
                                       const LocalRunOptions& options);

}  // namespace taut::worker
