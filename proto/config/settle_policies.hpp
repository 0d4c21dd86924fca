#pragma once

#include "common/result.hpp"
#include "common/ssp/policies.hpp"
#include "proto/job.pb.h"

namespace taut {

/// What a job's `consistency` asks for in addition to its bound.
/// Errors    invalid: a value out of its range, policies that exclude each other or do not fit the
///           mode
[[nodiscard]] Result<Policies> to_policies(const pb::Job& job);

}  // namespace taut
