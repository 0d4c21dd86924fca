#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "common/result.hpp"

namespace taut::cli {

/// What a folder records about its run: one of train, submit or sweep, or a whole sweep.
struct RunRecord {
  std::filesystem::path folder;
  std::string name;     // the folder below the one that was searched
  std::string kind;     // "train", "submit", "sweep"
  std::string job;      // the job's name
  std::string state;    // "done", "failed", ...; "unfinished" without a summary
  std::string mode;     // "BSP", "SSP 2", "ASYNC"; empty: unknown
  std::string began;    // ISO 8601, UTC
  std::string command;  // as a line for a shell
  std::string host;
  std::string working_folder;
  std::string project;  // the commit of the working folder's repository
  std::string build;
  std::string message;
  std::string advice;  // how to continue it; empty: it is done, or has no checkpoint
  std::size_t workers = 0;
  std::int64_t iterations = 0;
  std::int64_t max_iter = 0;
  std::optional<double> accuracy;           // of the last test
  std::optional<double> loss;               // of the last test
  std::optional<double> images_per_second;  // records of any kind
  std::optional<double> rate;               // of rate_unit
  std::string rate_unit;                    // "images/s", "tokens/s"
  std::optional<double> seconds;            // the job itself
  std::string parameters_sha256;
  std::vector<std::string> checkpoints;  // folders, the newest last
  std::string note;
  std::vector<std::string> tags;
};

/// Whether a folder is that of one run.
[[nodiscard]] bool is_run(const std::filesystem::path& folder);
/// Whether a folder is that of a whole sweep, with its runs in it.
[[nodiscard]] bool is_sweep(const std::filesystem::path& folder);

/// For a sweep: how it started, how many of its runs are done, and the checkpoints of them all.
/// Errors    not_found: the folder is neither a run's nor a sweep's
[[nodiscard]] Result<RunRecord> read_record(const std::filesystem::path& folder);

/// The runs below a folder, including those of a sweep, in the order in which they started.
[[nodiscard]] std::vector<RunRecord> records_below(const std::filesystem::path& folder);

/// The run that a user names: by its folder, its name below `runs`, or a submitted job's number. A
/// sweep can also be named, by folder or name.
/// Errors    not_found; invalid: the name fits several
[[nodiscard]] Result<RunRecord> find_record(const std::filesystem::path& runs,
                                            const std::string& name);

/// Writes the user's notes about the run next to its results: notes.json.
[[nodiscard]] Result<void> write_notes(const RunRecord& run);

}  // namespace taut::cli
