#pragma once

#include "proto/solver.pb.h"
#include "worker/backend/backend.hpp"

namespace taut::worker {

/// How a solver says that its job is to be computed.
[[nodiscard]] MathOptions math_options(const pb::SolverParameter& solver);

}  // namespace taut::worker
