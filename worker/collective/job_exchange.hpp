#pragma once

#include <optional>

#include "proto/job.pb.h"
#include "worker/collective/algorithms.hpp"
#include "worker/collective/gossip_graph.hpp"

namespace taut::collective {

[[nodiscard]] Algorithm algorithm_of(const pb::WorkerExchange& exchange);

/// Over which the workers of a job average; nullopt: they do not.
[[nodiscard]] std::optional<Graph> graph_of(const pb::Job& job);

}  // namespace taut::collective
