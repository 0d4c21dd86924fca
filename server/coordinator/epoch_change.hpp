#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "proto/control.pb.h"
#include "server/coordinator/job_record.hpp"
#include "server/coordinator/registry.hpp"

namespace taut {

/// What is worth a line in the log.
using Notes = std::vector<std::string>;

/// How updates apply under this slack; slack 0 is BSP.
[[nodiscard]] constexpr pb::ModeChange::Mode mode_of_slack(std::int64_t slack) {
  return slack == 0 ? pb::ModeChange::AGGREGATE : pb::ModeChange::ON_ARRIVAL;
}

/// A clock above every one that anybody is known to have reached, with a little lead.
[[nodiscard]] std::int64_t first_free_clock(const JobRecord& job);

/// Carries a running job's members and mode towards what is wanted, one change at a time, each in
/// two phases, so that every server sees it happen at the same clock:
/// leave  the lost are fenced; the clock from which they are missing is the lowest that any server
///        still waits for; losses go before everything else, as the others may be waiting
/// mode   pushes from a clock K on are held; once no server has accepted one of them, the mode
///        changes at K; otherwise K is raised
/// join   the same with a member that begins at K, in the slot of one that was lost or never came
/// Call it whenever anything may have changed. REQUIRES: the job is running, and not closing.
void advance_epoch(JobRecord& job, const Registry& registry, Notes& notes);

}  // namespace taut
