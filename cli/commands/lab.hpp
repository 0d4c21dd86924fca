#pragma once

#include <cstdint>
#include <string>

#include "cli/commands/train.hpp"

namespace taut::cli {

/// The options of `tautline lab JOB`: those of `train`, on a cluster that need not exist.
struct LabOptions {
  TrainOptions train;
  std::string cluster;  // file
};

/// Trains in virtual time and prints the summary. Returns the exit status.
int run_lab(const LabOptions& options);

}  // namespace taut::cli
