#pragma once

#include <cstddef>
#include <optional>

#include "common/math/codec.hpp"

namespace taut::worker {

/// The times of an encoding, in seconds per value.
struct CodecTime {
  double encode_s = 0;
  double decode_s = 0;
  double add_s = 0;  // to add one more update to a shard's sum
};

/// Times an encoding on this machine, on a slice of random values: the median of three rounds,
/// for sums of nine, after an uncounted first one.
/// count     the number of values
/// momentum  applied by the worker before it chooses what to send, as DGC does; nullopt: it
///           encodes gradients
[[nodiscard]] CodecTime time_codec(const math::Encoding& encoding, std::size_t count,
                                   std::optional<float> momentum = std::nullopt);

}  // namespace taut::worker
