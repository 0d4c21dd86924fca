#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "cli/child_process.hpp"
#include "common/result.hpp"
#include "proto/job.pb.h"
#include "proto/session/control_client.hpp"

namespace taut::bench {

/// Starts a copy of this program in another role; what it prints goes to `log`.
[[nodiscard]] Result<cli::ChildProcess> start_role(std::vector<std::string> arguments,
                                                   const std::filesystem::path& log);
/// The first line that a child prints. Errors: timeout, after 5 s.
[[nodiscard]] Result<std::string> first_line(const std::filesystem::path& log);
/// Waits for children to end, each for at most `limit_s`.
/// Errors    timeout; unavailable: one ended badly, and its log
[[nodiscard]] Result<void> await_all(std::vector<cli::ChildProcess>& children, double limit_s);
/// Waits until this many workers have joined. Errors: timeout, after 10 s.
[[nodiscard]] Result<void> await_workers(ControlClient& control, int workers);
/// A job without a net that never ends on its own.
[[nodiscard]] pb::Job bench_job(int workers, pb::Consistency::Mode mode = pb::Consistency::ASYNC);

}  // namespace taut::bench
