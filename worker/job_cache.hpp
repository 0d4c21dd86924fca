#pragma once

#include <memory>
#include <span>
#include <vector>

#include "common/net/shared_arena.hpp"
#include "common/result.hpp"
#include "common/time.hpp"
#include "proto/cluster.pb.h"
#include "proto/control.pb.h"
#include "worker/cache/parameter_cache.hpp"
#include "worker/job_run.hpp"

namespace taut::worker {

/// How long a shard that owes answers may say nothing.
[[nodiscard]] Duration silence_limit(const pb::WorkerJob& job);

/// Memory of payloads for processes of this machine; nullptr: they travel as bytes.
[[nodiscard]] std::shared_ptr<SharedArena> open_arena(const pb::WorkerConfig& settings,
                                                      Backend& device);

/// The parameters of a member's run: shared ones; the worker's own, where it averages or sums among
/// the workers; with several devices, those of the first, and the others' copies.
/// graph     of the training net
/// Errors    as the caches' open()
[[nodiscard]] Result<std::unique_ptr<ParameterCache>> open_cache(
    Client& client, std::span<Backend* const> devices, const model::Graph& graph,
    const pb::WorkerJob& job, const pb::WorkerConfig& settings, RunPlace& place, RunOrders& orders);

}  // namespace taut::worker
