#pragma once

#include <functional>
#include <string>

#include "proto/config/job_words.hpp"
#include "proto/session/control_client.hpp"

namespace taut::cli {

/// The command line that continues a job that failed or was stopped, from its newest checkpoint.
using ContinueLine = std::function<std::string(const pb::JobStatus& job)>;

/// Shows a job, and the ones that continue it by themselves, until the last of them ends; then
/// prints what it leaves. Ctrl-C leaves the job as it is.
/// Errors    it failed or was stopped, with how it is continued; interrupted; no answer
[[nodiscard]] Result<void> follow_job(ControlClient& client, JobId first, const JobWords& words,
                                      const ContinueLine& line);

}  // namespace taut::cli
