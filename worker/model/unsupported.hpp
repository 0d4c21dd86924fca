#pragma once

#include "common/result.hpp"
#include "proto/job.pb.h"

namespace taut::model {

/// Refuses fields of the schema that this version does not act on yet.
/// Errors    invalid: names the first such field
[[nodiscard]] Result<void> check_supported(const pb::Job& job);

}  // namespace taut::model
