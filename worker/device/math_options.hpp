#pragma once

#include "proto/solver.pb.h"
#include "worker/engine/backend.hpp"

namespace taut::worker {

/// How a solver configures the computation of its job.
[[nodiscard]] MathOptions math_options(const pb::SolverParameter& solver);

}  // namespace taut::worker
