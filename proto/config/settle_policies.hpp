#pragma once

#include "common/result.hpp"
#include "common/ssp/policies.hpp"
#include "proto/job.pb.h"

namespace taut {

/// The policies in a job's `consistency`, in addition to its bound.
/// Errors    invalid: a value out of its range, policies that exclude each other or do not fit the
///           mode
[[nodiscard]] Result<Policies> to_policies(const pb::Job& job);

}  // namespace taut
