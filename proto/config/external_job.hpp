#pragma once

#include <cstdint>

#include "common/result.hpp"
#include "common/types.hpp"
#include "proto/job.pb.h"

namespace taut {

/// The first clock at which a job with external members trains. If its text names no tables, the
/// update of the clock before it is a member's initial values.
constexpr std::int64_t kFirstExternalClock = 1;

/// Whether members bring the initial values, as updates of clock 0.
[[nodiscard]] bool is_seeded(const pb::Job& job);

/// The clock at which a job's first step of the rule is made.
[[nodiscard]] Clock first_step(const pb::Job& job);

/// The clock of a job's first updates: initial values, or gradients.
[[nodiscard]] Clock first_update(const pb::Job& job);

/// The clock at which a job's training is over; never() for a job with external members, which ends
/// when they request it.
[[nodiscard]] Clock end_clock(const pb::Job& job);

/// Checks what a job with external members must and must not specify; any other job passes.
/// Errors    invalid: a net, data, no number of workers, a mode or a rule that needs Tautline's own
///           training loop
[[nodiscard]] Result<void> check_external_members(const pb::Job& job);

}  // namespace taut
