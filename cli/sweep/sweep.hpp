#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include "common/result.hpp"
#include "proto/sweep.pb.h"

namespace taut::cli {

/// The options of `tautline sweep`, which override the sweep file.
struct SweepOptions {
  pb::Sweep sweep;
  pb::Sweep from_files;  // the same without command-line options
  std::string job_file;  // empty: the default job
  std::string data;      // folder; empty: what the job names
  std::string output;    // folder; an interrupted sweep continues there
  bool json = false;     // print the figures as one JSON object, and nothing else
  bool report_only = false;
  bool on_slurm = false;            // the runs are tasks of an array job
  std::vector<std::string> sbatch;  // further options of sbatch
  std::optional<std::size_t> task;  // run only this run of the folder's own sweep
  bool target_is_late = false;      // the folder's runs were made for another target
};

/// Reads a sweep file. Its job is found as a job's own files are.
/// Errors    not_found; invalid: with line and column
[[nodiscard]] Result<SweepOptions> load_sweep(const std::string& file);

/// The consistency of a job file, as a policy with the file's name.
/// Errors    not_found; invalid: with line and column, or a file without consistency
[[nodiscard]] Result<pb::SweepPolicy> load_policy(const std::string& file);

/// Runs the part of the grid that has not finished yet, and writes the report. Returns the exit
/// status: 1 if a run failed.
int run_sweep(const SweepOptions& options);

}  // namespace taut::cli
