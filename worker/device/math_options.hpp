#pragma once

#include "proto/solver.pb.h"
#include "worker/engine/backend.hpp"

namespace taut::worker {

/// The math options that a solver sets for its job.
[[nodiscard]] MathOptions math_options(const pb::SolverParameter& solver);

}  // namespace taut::worker
