#pragma once

#include "lab/run_plan.hpp"

namespace taut::sim {

/// Servers of shards that have backups are lost, alone, together, or with a worker or the
/// coordinator, and come back. All of it is drawn apart, so that a seed's other faults are the same
/// without it.
/// span        about as long as the job trains
/// replicates  the job's shards may have backups
void draw_outages(Plan& plan, const PlanLimits& limits, Duration span, bool replicates);

/// The coordinator is restarted more often, and its disk is full for a while, or fails.
void draw_coordinator_outages(Plan& plan, const Faults& faults, Duration span);

}  // namespace taut::sim
