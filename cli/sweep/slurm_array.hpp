#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "common/result.hpp"

namespace taut::cli {

/// A Slurm array job whose tasks are runs of a sweep.
struct SlurmArray {
  std::string name;                  // of the job
  std::filesystem::path program;     // tautline, as the nodes see it
  std::filesystem::path folder;      // the sweep's, as the nodes see it
  std::vector<std::size_t> runs;     // numbers of the runs, ascending
  std::uint32_t at_once = 1;         // tasks that may run at the same time
  std::uint32_t processors = 1;      // of each task
  std::vector<std::string> options;  // of sbatch, after those of the script
};

/// Tasks by their numbers, with Slurm's words for their states.
using TaskStates = std::map<std::size_t, std::string>;

/// "0-3,7" of 0, 1, 2, 3, 7.
[[nodiscard]] std::string array_ranges(const std::vector<std::size_t>& numbers);

/// The batch script. It contains the options that --sbatch may change.
[[nodiscard]] std::string array_script(const SlurmArray& array);

/// The arguments of sbatch. The options that the sweep relies on are last, and so override the
/// user's and sbatch's variables. They are not lines of the script, which has no quoting.
[[nodiscard]] std::vector<std::string> submit_arguments(const SlurmArray& array,
                                                        const std::filesystem::path& script);

/// The tasks in the output of `squeue --array --format "%K %T"` for one job or several.
[[nodiscard]] TaskStates task_states(std::string_view printed);

/// Whether a task in this state will never run again.
[[nodiscard]] bool has_ended(const std::string& state);

/// Writes the script into the sweep's folder and submits it. Returns the job's number.
/// Errors    not_found: no sbatch here; invalid: sbatch's message; unavailable: it was interrupted
///           or does not end, and may have submitted the job
[[nodiscard]] Result<std::string> submit_array(const SlurmArray& array);

/// What the queue knows about a folder's jobs.
struct SlurmQueue {
  TaskStates tasks;
  std::vector<std::string> living;  // jobs with a task that has not ended
};

/// Queries each job; the queue no longer knows jobs that ended some minutes ago.
/// Errors    not_found: no squeue here; unavailable: the controller does not answer; closed:
///           interrupted
[[nodiscard]] Result<SlurmQueue> ask_queue(const std::vector<std::string>& jobs,
                                           const std::filesystem::path& folder);

}  // namespace taut::cli
