#pragma once

#include <cstdint>

#include "common/result.hpp"
#include "proto/job.pb.h"

namespace taut {

/// The parts of a coded checkpoint's files, as many as ReedSolomon allows.
inline constexpr std::uint32_t kMaxDataParts = 32;
inline constexpr std::uint32_t kMaxParityParts = 16;

/// Whether workers have a part of checkpoints, which only they can save: state that a net carries
/// between batches, or what compression leaves out of updates.
[[nodiscard]] bool carries_state(const pb::Job& job);

/// Checks what a job says of its checkpoints.
/// Errors    invalid: numbers of parts out of their ranges; settings that cannot be combined
[[nodiscard]] Result<void> check_checkpoints(const pb::Job& job);

}  // namespace taut
