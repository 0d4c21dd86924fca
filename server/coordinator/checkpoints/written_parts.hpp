#pragma once

#include <string>

#include "proto/checkpoint.pb.h"
#include "server/coordinator/store/job_record.hpp"

/// What servers and workers have written of the checkpoint that is ordered.
namespace taut {

/// Whether a member takes part in the current checkpoint, even if it has finished training.
[[nodiscard]] bool owes_checkpoint(const JobRecord& job, int member);

/// The progress of the current order.
struct PartsProgress {
  bool missed = false;
  bool written = true;  // by every process
  std::string error;
};

/// REQUIRES: one is ordered.
[[nodiscard]] PartsProgress progress_of_parts(const JobRecord& job);

/// What its parts make together. REQUIRES: all are written.
[[nodiscard]] pb::CheckpointManifest manifest_of(const JobRecord& job);

}  // namespace taut
