#pragma once

#include <cstdint>

#include "common/math/codec.hpp"
#include "common/net/message.hpp"
#include "common/types.hpp"

namespace taut {

/// One worker's update of a table, or of one slice of it: from the client's caller to the message,
/// and from the message to its application at the shard.
struct Update {
  Clock clock;
  Frame gradient;             // [n] at any alignment; kept until it is acknowledged, or applied
  float norm = 0;             // the norm that the rule's math::UpdateNorm requires; 0 if none
  math::Encoding encoding{};  // of `gradient`
  float weight = 1;           // the worker's share of the batch over an equal one
  /// For a bucket of a table that is kept by rows: `gradient` has the numbers of `rows` rows, 8
  /// bytes each and ascending, then their gradients, [rows, width] float32.
  bool by_rows = false;
  std::uint32_t rows = 0;
};

}  // namespace taut
