#pragma once

#include <string>

#include "common/types.hpp"
#include "proto/coordinator_state.pb.h"

namespace taut {

/// What is wrong with a job's stored record: a number that leads to nothing, or does not follow
/// those before it, or a text that is none, as after damage to a disk. Empty: a coordinator can
/// continue from it. What the job is, its net and solver, is not checked again. Pure.
/// job       under which it is stored
[[nodiscard]] std::string damage_of(JobId job, const pb::StoredJob& stored);

}  // namespace taut
