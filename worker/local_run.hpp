#pragma once

#include <cstdint>
#include <string>

#include "common/result.hpp"
#include "common/types.hpp"
#include "proto/job.pb.h"
#include "worker/engine/backend.hpp"

namespace taut::worker {

struct LocalRunOptions {
  std::uint32_t replicas = 1;
  Bytes budget{0};         // of device memory; 0: no limit
  bool only_plan = false;  // print the memory plan and do not train
  std::string records;     // a folder for metrics.csv; empty: no records
};

/// Runs a job in this process, without a server, and prints the result: the same loop, data and
/// sums as `replicas` workers under BSP. The baseline for speed and for bits.
/// Errors    as run_job
/// Thread    main
[[nodiscard]] Result<void> run_locally(const pb::Job& job, Backend& device,
                                       const LocalRunOptions& options);

}  // namespace taut::worker
