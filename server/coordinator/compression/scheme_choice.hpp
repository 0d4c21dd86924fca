#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "proto/node_check/compression.pb.h"

namespace taut {

/// What the choice of a job's schemes depends on.
struct SchemeQuestion {
  pb::Compression compression;                // of the job, with AUTO
  std::vector<pb::CompressionCosts> workers;  // measured by each of them
  std::uint32_t shards = 1;
  std::uint32_t clocks = 1;  // of compute between one push and the next
};

/// Chooses schemes in place of AUTO: the most exact of those with which a clock is predicted to
/// take at most 5 % longer than with the fastest. The prediction is for the slowest worker and a
/// sum, as if nothing overlapped:
///
///   clock = compute + encode(push) + (bytes(push) + bytes(pull)) / bandwidth + decode(pull)
///         + (workers decode(push) + encode(pull)) / shards
///
/// A worker's measurements are all ignored if any of them is missing, not finite, negative or
/// absurd; if none are left, FLOAT32 is chosen. Pure. REQUIRES: push or pull is AUTO.
[[nodiscard]] pb::CompressionChoice choose_schemes(const SchemeQuestion& question);

/// The earlier choice in place of AUTO, for a job that resumes; nullopt if it does not fit what the
/// job requests.
[[nodiscard]] std::optional<pb::CompressionChoice> keep_schemes(
    const pb::Compression& requested, const pb::CompressionChoice& earlier);

}  // namespace taut
