#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "proto/node_check/compression.pb.h"

namespace taut {

/// What the choice of a job's schemes depends on.
struct SchemeQuestion {
  pb::Compression compression;                // of the job, with AUTO
  std::vector<pb::CompressionCosts> workers;  // as each of them has measured
  std::uint32_t shards = 1;
  std::uint32_t clocks = 1;  // of compute between one push and the next
};

/// Chooses schemes in place of AUTO: of those with which a clock is predicted to take at most 5 %
/// longer than with the fastest, the most exact. The prediction is of the slowest worker and adds
/// up, as if nothing overlapped:
///
///   clock = compute + encode(push) + (bytes(push) + bytes(pull)) / bandwidth + decode(pull)
///         + (workers decode(push) + encode(pull)) / shards
///
/// What a worker has measured is left out as a whole if any of it is missing, not finite, negative
/// or absurd; if nothing is left, FLOAT32 is chosen. Pure. REQUIRES: one of the two is AUTO.
[[nodiscard]] pb::CompressionChoice choose_schemes(const SchemeQuestion& question);

/// What was chosen earlier in place of AUTO, for a job that is resumed; nullopt: the job asks for
/// another choice.
[[nodiscard]] std::optional<pb::CompressionChoice> keep_schemes(
    const pb::Compression& requested, const pb::CompressionChoice& earlier);

}  // namespace taut
