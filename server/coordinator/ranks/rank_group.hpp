#pragma once

#include "server/coordinator/job_life.hpp"
#include "server/coordinator/registry.hpp"
#include "server/coordinator/store/job_record.hpp"

namespace taut {

/// Sends the workers of a job that sum among themselves the list of their ranks and addresses:
/// first once all of them listen, then again whenever one has joined, left or found the group
/// broken, without those that do not listen yet. A member that finishes changes nothing: it has
/// sent everything that the others need.
void advance_rank_group(JobRecord& job, const Registry& registry, Notes& notes);

}  // namespace taut
