#pragma once

#include <cstddef>
#include <optional>

#include "common/math/codec.hpp"

namespace taut::worker {

/// Seconds a value of an encoding.
struct CodecTime {
  double encode_s = 0;
  double decode_s = 0;
  double add_s = 0;  // of one more update in a shard's sum
};

/// Times an encoding on this machine, on a slice of made-up values: the median of three rounds
/// after a first one, of sums of nine.
/// count     of the values
/// momentum  of a worker that applies it before it chooses what it sends, as DGC does; nullopt: it
///           encodes gradients
[[nodiscard]] CodecTime time_codec(const math::Encoding& encoding, std::size_t count,
                                   std::optional<float> momentum = std::nullopt);

}  // namespace taut::worker
