#pragma once

#include <string>

#include "server/coordinator/registry.hpp"
#include "server/coordinator/store/job_record.hpp"

namespace taut {

/// How a job that failed or was stopped can be continued; empty: it cannot, or need not.
[[nodiscard]] std::string advice_for(const pb::StoredJob& stored);

/// The status of a job for users. `waiting` is what a submitted one waits for.
[[nodiscard]] pb::JobStatus job_status(const JobRecord& job, const Registry& registry,
                                       const std::string& waiting, TimePoint now);

/// Leaves of an ended job's status what a list of jobs shows: the newest test and checkpoint, and
/// the slowest member; the others become former ones.
void shorten(pb::JobStatus& status);

[[nodiscard]] pb::ServerStatus server_status(const Participant& server, TimePoint now);
/// A worker that has joined.
/// job  that it works for; 0: none
[[nodiscard]] pb::WorkerStatus worker_status(const Participant& worker, JobId job, TimePoint now);

}  // namespace taut
