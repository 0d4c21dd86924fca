#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "cli/commands/shared_options.hpp"
#include "cli/job_options.hpp"

namespace taut::cli {

inline constexpr std::uint64_t kMaxProcesses = 256;

/// Adds the options with which train, submit and config show override a job: --slack, --mode,
/// --seed and the like. Each value is checked while the command line is parsed.
void add_job_options(Command& command, const std::shared_ptr<JobOptions>& options,
                     std::uint64_t max_workers = kMaxProcesses);

/// Throws UsageError if --slack and --mode contradict each other.
void check_job_options(const JobOptions& options);

/// Throws UsageError with the mistake in a job if the options caused it: if the job itself, with
/// the files that the options name, can be trained. Mistakes in files are not usage errors.
/// job       without the options
/// can_train finds out whether the job can be trained
void blame_options(const JobOptions& options, pb::Job job, const std::string& mistake,
                   const std::function<bool(const pb::Job&)>& can_train);

/// A number of clocks, or async.
command_line::Option slack_option(Command& command, const std::string& name,
                                  std::optional<Slack>& slack, const std::string& help);

/// --straggler, which may be repeated.
void straggler_option(Command& command, std::vector<pb::Straggler>& stragglers);

/// What is wrong with a slack's text; empty if nothing is.
[[nodiscard]] std::string check_slack(const std::string& text);

}  // namespace taut::cli
