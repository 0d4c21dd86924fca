#pragma once

#include "proto/job.pb.h"

namespace taut {

/// Whether checkpoints have a part that only workers can save: state that a net carries between
/// batches, or what compression leaves out of updates.
[[nodiscard]] bool carries_state(const pb::Job& job);

}  // namespace taut
