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

/// How long a shard that owes replies may be silent.
[[nodiscard]] Duration silence_limit(const pb::WorkerJob& job);

/// Memory that shares payloads with processes on this machine; nullptr: they are sent as bytes.
[[nodiscard]] std::shared_ptr<SharedArena> open_arena(const pb::WorkerConfig& settings,
                                                      Backend& device);

/// Opens the parameter cache of a member's run: for shared parameters, or for the worker's own if
/// the job averages or exchanges among workers; with several devices, the first one's cache and
/// the others' copies.
/// graph     the training net's
/// Errors    as the caches' open()
[[nodiscard]] Result<std::unique_ptr<ParameterCache>> open_cache(
    Client& client, std::span<Backend* const> devices, const model::Graph& graph,
    const pb::WorkerJob& job, const pb::WorkerConfig& settings, RunPlace& place, RunOrders& orders);

}  // namespace taut::worker
