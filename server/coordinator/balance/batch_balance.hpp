#pragma once

#include "common/time.hpp"
#include "server/coordinator/job_life.hpp"
#include "server/coordinator/store/job_record.hpp"

namespace taut {

struct BalanceLimits {
  Duration measure;  // how long a worker computes at its share before its speed is used
  Duration hold;     // how long the others may hold a clock for a worker that does not answer
};

/// Moves a balancing job towards shares of the batch with which all its workers take equally long.
/// New shares are proposed for a clock that no worker has begun: every worker holds that clock and
/// confirms it, and only then do they apply from it on. Changes are rare: a clock must get shorter
/// by a tenth of what the slowest worker takes now, or a member must have joined or left.
/// A change that a worker does not answer is withdrawn, and proposed again when all answer.
void advance_balance(JobRecord& job, const BalanceLimits& limits, TimePoint now, Notes& notes);

}  // namespace taut
