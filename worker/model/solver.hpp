#pragma once

#include <string>
#include <vector>

#include "common/result.hpp"
#include "proto/solver.pb.h"

namespace taut::model {

/// Checks everything that a solver says; returns what it says in vain, one line each, for the user
/// to be warned of.
/// Errors    invalid: names the field and its value, or the field that is missing
[[nodiscard]] Result<std::vector<std::string>> check_solver(const pb::SolverParameter& solver);

/// Brings Caffe's older spelling of the type into today's.
/// Errors    invalid: both are given
[[nodiscard]] Result<void> upgrade_solver(pb::SolverParameter& solver);

}  // namespace taut::model
