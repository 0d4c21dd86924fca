#pragma once

#include "common/result.hpp"
#include "lab/training/costs/learning_target.hpp"
#include "lab/training/costs/scaling.hpp"

namespace taut::cli {

/// Errors    invalid: the job's tests do not report the target's figure
[[nodiscard]] Result<void> check_target(const pb::Job& job, const lab::LearningTarget& target);

/// Trains in the lab with each number of workers under each slack until the target is reached,
/// prints when that is, what it costs and how long it takes here, and then which reaches it soonest
/// and which most cheaply.
/// Errors    as lab::train_to_target(); closed: a signal
[[nodiscard]] Result<void> print_target(const lab::ScalingOptions& options,
                                        const lab::LearningTarget& target);

}  // namespace taut::cli
