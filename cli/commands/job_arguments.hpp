#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "cli/commands/command.hpp"
#include "cli/job_options.hpp"

namespace taut::cli {

inline constexpr std::uint64_t kMaxProcesses = 256;

/// Adds what train, submit and config show put over a job: --slack, --mode, --seed and the like.
/// Each value is checked while the command line is parsed.
void add_job_options(Command& command, const std::shared_ptr<JobOptions>& options);

/// Throws UsageError where --slack and --mode contradict each other.
void check_job_options(const JobOptions& options);

/// A number of clocks, or async.
command_line::Option slack_option(Command& command, const std::string& name,
                                  std::optional<Slack>& slack, const std::string& help);

/// --straggler, as often as needed.
void straggler_option(Command& command, std::vector<pb::Straggler>& stragglers);

/// What is wrong with a slack's text; empty: nothing.
[[nodiscard]] std::string check_slack(const std::string& text);

}  // namespace taut::cli
