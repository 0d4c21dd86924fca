#pragma once

#include "server/coordinator/job_life.hpp"
#include "server/coordinator/registry.hpp"
#include "server/coordinator/store/job_record.hpp"

namespace taut {

/// Sends the workers of a job that sum among themselves the list of their ranks and addresses, and
/// again whenever one has joined or left: first once all of them listen, later without those that
/// do not yet. That one has finished changes nothing: it has sent all that others need.
void advance_rank_group(JobRecord& job, const Registry& registry, Notes& notes);

}  // namespace taut
