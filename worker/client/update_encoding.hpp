#pragma once

#include <cstdint>
#include <vector>

#include "common/ssp/compression.hpp"

namespace taut {

/// The settings of a job by which a member's updates are encoded.
struct UpdateEncoding {
  Compression compression;
  std::uint64_t seed = 0;  // the job's
  std::uint32_t slot = 0;  // the member's share of the data
};

/// What a member's updates have left out so far, by table: what math::encode() keeps of each slice,
/// in their order, and then the velocities of the table if members apply momentum, [count]. Empty
/// for a table without residuals.
using Residuals = std::vector<std::vector<float>>;

}  // namespace taut
