#pragma once

#include <atomic>
#include <string>

#include "common/result.hpp"
#include "common/time.hpp"
#include "common/types.hpp"
#include "worker/cache/parameter_cache.hpp"
#include "worker/model/graph.hpp"
#include "worker/pace.hpp"
#include "worker/progress.hpp"
#include "worker/training/divergence.hpp"

namespace taut::worker {

/// The parameters' digest: SHA-256 over every table's values in table order, little-endian float32;
/// of a large table by rows only those of some rows.
/// until       waits until every table has all updates before this clock
/// divergence  checks the values
[[nodiscard]] Result<std::string> digest_parameters(ParameterCache& cache,
                                                    const model::Graph& graph, Clock until,
                                                    Duration wait, const std::atomic<bool>& stop,
                                                    const DivergenceRule& divergence,
                                                    ProgressBoard& board,
                                                    Pace& pace = machine_pace());

}  // namespace taut::worker
