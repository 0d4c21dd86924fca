#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "common/result.hpp"

namespace taut::cli {

/// An array job of Slurm whose tasks are runs of a sweep.
struct SlurmArray {
  std::string name;                  // of the job, and of nothing else in the queue
  std::filesystem::path program;     // tautline, as the nodes see it
  std::filesystem::path folder;      // the sweep's, as the nodes see it
  std::vector<std::size_t> runs;     // numbers of the runs, ascending
  std::uint32_t at_once = 1;         // tasks that may run at the same time
  std::uint32_t processors = 1;      // of each task
  std::vector<std::string> options;  // of sbatch, after those of the script
};

/// "0-3,7" of 0, 1, 2, 3, 7.
[[nodiscard]] std::string array_ranges(const std::vector<std::size_t>& numbers);

/// The batch script, which sbatch can also be given by hand.
[[nodiscard]] std::string array_script(const SlurmArray& array);

/// The tasks of a job by their numbers, with Slurm's words for their states, of what
/// `squeue --array --format "%K %T %j"` prints. Jobs of other names are none of ours.
[[nodiscard]] std::map<std::size_t, std::string> task_states(std::string_view printed,
                                                             const std::string& name);

/// Whether a task in this state will not run any more.
[[nodiscard]] bool has_ended(const std::string& state);

/// Writes the script into the sweep's folder and submits it. Returns the job's number.
/// Errors    not_found: no sbatch here; invalid: what sbatch says
[[nodiscard]] Result<std::string> submit_array(const SlurmArray& array);

/// The tasks of the jobs that the queue knows; jobs that ended some minutes ago are not known any
/// more.
/// Errors    not_found: no squeue here; unavailable: the controller does not answer
[[nodiscard]] Result<std::map<std::size_t, std::string>> ask_queue(
    const std::vector<std::string>& jobs, const std::string& name,
    const std::filesystem::path& folder);

}  // namespace taut::cli
