#pragma once

#include <span>
#include <vector>

#include "common/result.hpp"
#include "proto/cluster.pb.h"
#include "proto/control.pb.h"
#include "worker/engine/backend.hpp"
#include "worker/job_run.hpp"
#include "worker/replica.hpp"
#include "worker/run_state.hpp"
#include "worker/training/trainer.hpp"

namespace taut::worker {

/// Errors    invalid: the job balances, but this worker's settings fix the size of its batches
[[nodiscard]] Result<void> check_balanced(const pb::WorkerJob& job,
                                          const pb::WorkerConfig& settings);

/// A replica of the training net on each device.
[[nodiscard]] Result<std::vector<Replica>> make_replicas(const pb::WorkerJob& job,
                                                         const JobAssets& assets,
                                                         std::span<Backend* const> devices,
                                                         RunPlace& place);

/// Lets a balanced job's run change its batches when its shares change. All arguments must outlive
/// the run.
[[nodiscard]] Result<void> balance(Trainer::Options& options, const pb::WorkerJob& job,
                                   const JobAssets& assets, std::vector<Replica>& replicas,
                                   RunState& state, RunOrders& orders, RunPlace& place);

}  // namespace taut::worker
