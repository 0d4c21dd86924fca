#pragma once

#include <string>
#include <vector>

#include "common/result.hpp"
#include "proto/solver.pb.h"

namespace taut::model {

/// Checks all fields of a solver; returns a warning line for each field that has no effect.
/// Errors    invalid: names the field and its value, or the field that is missing
[[nodiscard]] Result<std::vector<std::string>> check_solver(const pb::SolverParameter& solver);

/// Converts Caffe's older spelling of the type to the current one.
/// Errors    invalid: both are given
[[nodiscard]] Result<void> upgrade_solver(pb::SolverParameter& solver);

}  // namespace taut::model
