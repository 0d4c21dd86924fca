#pragma once

#include <cstdint>

#include "common/ssp/compression.hpp"

namespace taut {

/// What of a job says how a member's updates are encoded.
struct UpdateEncoding {
  Compression compression;
  std::uint64_t seed = 0;  // the job's
  std::uint32_t slot = 0;  // the member's share of the data
};

}  // namespace taut
