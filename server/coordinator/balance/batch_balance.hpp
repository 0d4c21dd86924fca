#pragma once

#include "common/time.hpp"
#include "server/coordinator/job_life.hpp"
#include "server/coordinator/store/job_record.hpp"

namespace taut {

struct BalanceLimits {
  Duration measure;  // a worker has computed for so long at its share before its speed is believed
  Duration hold;     // how long the others may hold a clock for a worker that does not answer
};

/// Moves a job that balances towards shares of the batch with which its workers take as long as
/// each other. Other shares are announced for a clock that no worker has begun: every worker holds
/// that clock and says so, and only then are they the shares from it on. Rarely: a clock must get
/// shorter by a tenth of what the slowest worker takes now, or a member has come or gone.
/// A change that a worker does not answer is withdrawn, and proposed again when all answer.
void advance_balance(JobRecord& job, const BalanceLimits& limits, TimePoint now, Notes& notes);

}  // namespace taut
