#pragma once

#include <functional>
#include <string>

#include "proto/config/job_words.hpp"
#include "proto/session/control_client.hpp"

namespace taut::cli {

/// The command line that continues a job that failed or was stopped, from its newest checkpoint.
using ContinueLine = std::function<std::string(const pb::JobStatus& job)>;

/// Shows a job, and the jobs that continue it automatically, until the last of them ends; then
/// prints its results. Ctrl-C does not change the job.
/// Errors    it failed or was stopped, with how to continue it; interrupted; no answer
[[nodiscard]] Result<void> follow_job(ControlClient& client, JobId first, const JobWords& words,
                                      const ContinueLine& line);

}  // namespace taut::cli
