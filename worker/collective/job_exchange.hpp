#pragma once

#include <optional>

#include "proto/job.pb.h"
#include "worker/collective/algorithms.hpp"
#include "worker/collective/gossip_graph.hpp"

namespace taut::collective {

[[nodiscard]] Algorithm algorithm_of(const pb::WorkerExchange& exchange);

/// The graph over which the workers of a job average; nullopt if they do not.
[[nodiscard]] std::optional<Graph> graph_of(const pb::Job& job);

}  // namespace taut::collective
