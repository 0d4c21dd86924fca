#pragma once

#include <cstddef>

#include "common/math/codec.hpp"

namespace taut::worker {

/// Seconds a value of an encoding.
struct CodecTime {
  double encode_s = 0;
  double decode_s = 0;
};

/// Times an encoding on this machine, on a slice of made-up values: the median of three rounds
/// after a first one.
/// count  of the values
[[nodiscard]] CodecTime time_codec(const math::Encoding& encoding, std::size_t count);

}  // namespace taut::worker
