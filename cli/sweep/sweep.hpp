#pragma once

#include <string>

#include "common/result.hpp"
#include "proto/sweep.pb.h"

namespace taut::cli {

/// What `tautline sweep` is asked for, with the sweep file and the options already as one.
struct SweepOptions {
  pb::Sweep sweep;
  std::string job_file;  // empty: the default job
  std::string data;      // folder; empty: what the job names
  std::string output;    // folder; a sweep that was interrupted goes on there
  bool report_only = false;
};

/// Reads a sweep file. Its job is found as a job's own files are.
/// Errors    not_found; invalid: with line and column
[[nodiscard]] Result<SweepOptions> load_sweep(const std::string& file);

/// The consistency of a job file, as a policy that is named like the file.
/// Errors    not_found; invalid: with line and column, or the file says no consistency
[[nodiscard]] Result<pb::SweepPolicy> load_policy(const std::string& file);

/// Runs what of the grid is not there yet, one run after the other, and writes the report. Returns
/// the exit status: 1 where a run failed.
int run_sweep(const SweepOptions& options);

}  // namespace taut::cli
