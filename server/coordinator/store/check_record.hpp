#pragma once

#include <string>

#include "common/types.hpp"
#include "proto/coordinator_state.pb.h"

namespace taut {

/// What is wrong with a job's stored record, as after damage to a disk: an index out of range, a
/// number out of order, or text that is not UTF-8. Empty if a coordinator can continue from it. The
/// job's net and solver are not checked again. Pure.
/// job       the number under which it is stored
[[nodiscard]] std::string damage_of(JobId job, const pb::StoredJob& stored);

}  // namespace taut
