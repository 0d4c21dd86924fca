#pragma once

#include "lab/run_plan.hpp"

namespace taut::sim {

/// Draws losses and returns of servers whose shards have backups: alone, together, or with a worker
/// or the coordinator. These draws use a separate stream, so that a seed's other faults do not
/// change.
/// span        about as long as the job trains
/// replicates  the job's shards may have backups
void draw_outages(Plan& plan, const PlanLimits& limits, Duration span, bool replicates);

/// Draws more restarts of the coordinator, and times when its disk is full, or fails.
void draw_coordinator_outages(Plan& plan, const Faults& faults, Duration span);

}  // namespace taut::sim
