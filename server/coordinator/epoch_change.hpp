#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "proto/control.pb.h"
#include "server/coordinator/registry.hpp"
#include "server/coordinator/runs/notes.hpp"
#include "server/coordinator/store/job_record.hpp"

namespace taut {

/// In name order.
using IdleWorkers = std::function<std::vector<const Participant*>()>;

/// How updates are applied under this slack; slack 0 is BSP.
[[nodiscard]] constexpr pb::ModeChange::Mode mode_of_slack(std::int64_t slack) {
  return slack == 0 ? pb::ModeChange::AGGREGATE : pb::ModeChange::ON_ARRIVAL;
}

/// A clock that is above every clock which any worker is known to have reached, by some margin.
[[nodiscard]] std::int64_t first_free_clock(const JobRecord& job);

/// Whether a worker that joined now would have work to do, even if only the last test.
[[nodiscard]] bool has_clocks_left(const JobRecord& job);

/// Changes a running job's members and mode as requested, one change at a time, each in
/// two phases, so that it happens at the same clock on every server:
/// leave  lost workers are fenced; they leave at the lowest clock that any server still
///        expects from them; losses have priority, as other workers may be waiting
/// mode   pushes from a clock K on are held; if no server has accepted one of them, the mode
///        changes at K; otherwise K is raised
/// join   in the same way, members start at K in the slots of those that were lost or never
///        joined: every worker that is idle then and finds a free slot, up to the job's limit
/// Call it whenever anything may have changed. REQUIRES: the job is running, and not closing.
/// idle  the workers that work for no job, looked up again after each change
void advance_epoch(JobRecord& job, const IdleWorkers& idle, Notes& notes);

}  // namespace taut
