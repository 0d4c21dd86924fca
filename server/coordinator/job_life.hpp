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
/// max_workers  the most that a job may request
/// Errors    invalid: a string that is not UTF-8, no net or solver, no iterations, a
///           contradictory consistency, too many workers
[[nodiscard]] Result<Slack> check_definition(const pb::Job& definition, std::uint32_t max_workers);
/// Whether a job's policies allow another slack.
/// Errors    invalid: names the policy that forbids it
[[nodiscard]] Result<void> check_slack(const pb::Job& definition, Slack slack);

/// resume  the checkpoint that the definition names; nullptr if none
/// user    who submitted it
[[nodiscard]] pb::StoredJob new_job(JobId id, std::uint64_t token, const pb::Job& definition,
                                    const std::string& user, Slack slack,
                                    const pb::ResumePoint* resume = nullptr);

/// Gives the job its servers, shards and members. REQUIRES: it is submitted and can start.
/// workers   idle ones, as many as the job demands
void start_job(JobRecord& job, const Registry& registry,
               const std::vector<const Participant*>& workers, const Replication& replication,
               TimePoint now, Notes& notes);

/// Marks members whose process is lost, and has backups take over the shards of lost servers; fails
/// the job if they cannot.
void note_losses(JobRecord& job, const Registry& registry, TimePoint now, CheckpointTasks& tasks,
                 Notes& notes);

/// Fails the job with a message, and orders its workers to end.
void fail_job(JobRecord& job, const std::string& message, TimePoint now, Notes& notes);
/// Orders the workers to end; the job is stopped once they have. REQUIRES: it has not ended.
void stop_job(JobRecord& job, TimePoint now, Notes& notes);

/// Whether another job automatically continues this one: it failed without diverging and its
/// definition allows restarts, or it was stopped for a job of higher priority.
[[nodiscard]] bool may_restart(const pb::StoredJob& job);

/// Handles an error that a member reports: that worker is lost and the others continue, unless the
/// training has diverged, which fails the job.
void note_failure(JobRecord& job, int member, const std::string& title, TimePoint now,
                  Notes& notes);

/// Handles a member that has left at the end of its clock, as ordered; the others continue.
void note_left(JobRecord& job, int member, const std::string& title, Notes& notes);

/// Treats members whose updates servers have refused as the job's on_bad_update requires.
void note_bad_updates(JobRecord& job, TimePoint now, Notes& notes);

struct EndLimits {
  Duration stop;         // for workers to report after the request to stop
  Duration worker_wait;  // for another worker after every one was lost
};

/// Ends a job if its workers have finished and its checkpoints are written, if it is closing and
/// all have confirmed or the limit has passed, or if it has waited for a worker for too long.
void note_end(JobRecord& job, const EndLimits& limits, TimePoint now, Notes& notes);

}  // namespace taut
