#pragma once

#include <cstdint>
#include <string>

#include "common/result.hpp"
#include "common/time.hpp"
#include "server/coordinator/checkpoints/checkpoint_orders.hpp"
#include "server/coordinator/epoch_change.hpp"
#include "server/coordinator/placement/shard_placement.hpp"
#include "server/coordinator/registry.hpp"
#include "server/coordinator/store/job_record.hpp"

namespace taut {

/// The slack of a submitted job: 0 for BSP, unbounded for ASYNC.
/// max_workers  that a job may request
/// Errors    invalid: a string that is no text, no net or solver, no iterations, a
///           contradictory consistency, too many workers
[[nodiscard]] Result<Slack> check_definition(const pb::Job& definition, std::uint32_t max_workers);
/// Whether a job's policies allow another slack.
/// Errors    invalid: names the policy that forbids it
[[nodiscard]] Result<void> check_slack(const pb::Job& definition, Slack slack);

/// resume  the checkpoint that the definition names; nullptr if none
/// user    that submitted it
[[nodiscard]] pb::StoredJob new_job(JobId id, std::uint64_t token, const pb::Job& definition,
                                    const std::string& user, Slack slack,
                                    const pb::ResumePoint* resume = nullptr);

/// Gives the job its servers, shards and members. REQUIRES: it is submitted and waits for nothing.
/// workers   idle ones, as many as the job demands
void start_job(JobRecord& job, const Registry& registry,
               const std::vector<const Participant*>& workers, const Replication& replication,
               TimePoint now, Notes& notes);

/// Marks members whose process is lost, and has the shards of lost servers taken over; fails the
/// job where that cannot be.
void note_losses(JobRecord& job, const Registry& registry, TimePoint now, CheckpointTasks& tasks,
                 Notes& notes);

/// Fails the job with a message, and orders its workers to end.
void fail_job(JobRecord& job, const std::string& message, TimePoint now, Notes& notes);
/// Orders the workers to end; the job is stopped once they have. REQUIRES: it has not ended.
void stop_job(JobRecord& job, TimePoint now, Notes& notes);

/// Whether another job continues it by itself: it fails, not by diverging, and its definition
/// allows it; or it was stopped for a job of higher priority.
[[nodiscard]] bool may_restart(const pb::StoredJob& job);

/// A member has reported an error: that worker is lost and the others continue, unless the error is
/// one of the training itself, which has diverged for all of them.
void note_failure(JobRecord& job, int member, const std::string& title, TimePoint now,
                  Notes& notes);

/// A member has left at the end of its clock, as it was to; the others continue.
void note_left(JobRecord& job, int member, const std::string& title, Notes& notes);

/// What becomes of members whose updates servers have refused, as the job's on_bad_update says.
void note_bad_updates(JobRecord& job, TimePoint now, Notes& notes);

struct EndLimits {
  Duration stop;         // for workers to report after the request to stop
  Duration worker_wait;  // for another worker after every one was lost
};

/// Ends a job whose workers are through and whose checkpoints are written, whose workers had their
/// time to confirm that it ends, or that has waited for a worker without getting one.
void note_end(JobRecord& job, const EndLimits& limits, TimePoint now, Notes& notes);

}  // namespace taut
