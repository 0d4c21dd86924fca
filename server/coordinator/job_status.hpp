#pragma once

#include <string>

#include "server/coordinator/registry.hpp"
#include "server/coordinator/store/job_record.hpp"

namespace taut {

/// How a job that failed or was stopped can be continued; empty if it cannot, or need not.
[[nodiscard]] std::string advice_for(const pb::StoredJob& stored);

/// The status of a job for users.
/// waiting  what a submitted job waits for
[[nodiscard]] pb::JobStatus job_status(const JobRecord& job, const Registry& registry,
                                       const std::string& waiting, TimePoint now);

/// Reduces an ended job's status to what a list of jobs shows: the newest test and checkpoint, and
/// the slowest member; the other members are counted as former ones.
void shorten(pb::JobStatus& status);

[[nodiscard]] pb::ServerStatus server_status(const Participant& server, TimePoint now);
/// The status of a worker that has joined.
/// job  the one it works for; 0: none
[[nodiscard]] pb::WorkerStatus worker_status(const Participant& worker, JobId job, TimePoint now);

}  // namespace taut
