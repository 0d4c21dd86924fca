#pragma once

#include "cli/doctor/node_facts.hpp"
#include "common/result.hpp"
#include "proto/job.pb.h"

namespace taut::cli {

/// What a complete job, as it is submitted, requires of a cluster: its parameters' bytes, and the
/// paths that daemons open.
/// Errors    invalid: its nets or its solver
[[nodiscard]] Result<JobNeeds> needs_of(const pb::Job& job);

}  // namespace taut::cli
