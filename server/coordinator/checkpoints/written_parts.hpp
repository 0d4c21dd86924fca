#pragma once

#include <string>

#include "proto/checkpoint.pb.h"
#include "server/coordinator/store/job_record.hpp"

/// What servers and workers have written of the ordered checkpoint.
namespace taut {

/// Whether a member takes part in the current checkpoint, even if it has finished training.
[[nodiscard]] bool owes_checkpoint(const JobRecord& job, int member);

/// The progress of the current order.
struct PartsProgress {
  bool missed = false;  // by some process: the order was too late
  bool written = true;  // by every process
  std::string error;
};

/// REQUIRES: a checkpoint is ordered.
[[nodiscard]] PartsProgress progress_of_parts(const JobRecord& job);

/// The manifest of the ordered checkpoint. REQUIRES: all its parts are written.
[[nodiscard]] pb::CheckpointManifest manifest_of(const JobRecord& job);

}  // namespace taut
