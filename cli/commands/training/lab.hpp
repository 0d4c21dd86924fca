#pragma once

#include <cstdint>
#include <string>

#include "cli/commands/shared_options.hpp"
#include "cli/commands/training/train.hpp"

namespace taut::cli {

/// The options of `tautline lab JOB`: those of `train`, on a cluster that need not exist.
struct LabOptions {
  TrainOptions train;
  bool learns = true;
  std::string cluster;              // file; empty: this machine, measured
  std::string records = "metrics";  // what workers record, as for `train`
  bool timeline = false;
  std::uint64_t memory_limit = 0;  // bytes; 0: none
};

/// Trains in virtual time and prints the summary. Returns the exit status.
int run_lab(const LabOptions& options);

/// Adds `tautline lab calibrate`, which writes a cluster file of this machine.
void add_lab_calibrate(Command& lab, int& status);
/// Adds `tautline lab report`, which writes a page that plays a run.
void add_lab_report(Command& lab, int& status);
/// Adds `tautline lab plan`, which estimates how a job scales on a cluster.
void add_lab_plan(Command& lab, int& status);

}  // namespace taut::cli
