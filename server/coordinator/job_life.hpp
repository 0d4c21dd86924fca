#pragma once

#include <cstdint>
#include <string>

#include "common/result.hpp"
#include "common/time.hpp"
#include "server/coordinator/epoch_change.hpp"
#include "server/coordinator/job_record.hpp"
#include "server/coordinator/registry.hpp"

namespace taut {

/// The slack that a submitted job asks for: 0 for BSP, unbounded for ASYNC.
/// Errors    invalid: what cannot work whatever the model is: no net or solver, no iterations, a
///           consistency that contradicts itself, too many workers
[[nodiscard]] Result<Slack> check_definition(const pb::Job& definition);
/// Whether a job's policies allow another slack.
/// Errors    invalid: the policy that does not fit
[[nodiscard]] Result<void> check_slack(const pb::Job& definition, Slack slack);

/// resume  the checkpoint that the definition names; null: it names none
[[nodiscard]] pb::StoredJob new_job(JobId id, std::uint64_t token, const pb::Job& definition,
                                    Slack slack, const pb::ResumePoint* resume = nullptr);

/// What a job waits for before it can start; empty: nothing.
[[nodiscard]] std::string waits_for(const JobRecord& job, const Registry& registry);

/// Gives the job its servers, shards and members. REQUIRES: it is submitted and waits for nothing.
void start_job(JobRecord& job, const Registry& registry, TimePoint now, Notes& notes);

/// Marks members whose process is gone, and fails the job where a server or every worker is.
void note_losses(JobRecord& job, const Registry& registry, TimePoint now, Notes& notes);

/// Ends the job with a message, and tells its workers to end.
void fail_job(JobRecord& job, const std::string& message, TimePoint now, Notes& notes);
/// Tells the workers to end; the job is stopped once they have. REQUIRES: it has not ended.
void stop_job(JobRecord& job, TimePoint now, Notes& notes);

/// Ends a job whose workers are through and whose checkpoints are written, or whose workers had their
/// time to confirm that it ends.
void note_end(JobRecord& job, Duration stop_limit, TimePoint now, Notes& notes);

}  // namespace taut
