#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <vector>

#include "common/math/codec.hpp"
#include "common/ssp/compression.hpp"

namespace taut {

/// A job's settings for encoding a member's updates.
struct UpdateEncoding {
  Compression compression;
  std::uint64_t seed = 0;  // the job's
  std::uint32_t slot = 0;  // the member's share of the data
};

/// A table's update of a clock in memory, slice by slice, as a device encodes it and the client
/// sends it.
struct TableEncoding {
  struct Part {
    std::size_t offset = 0;  // of the slice in the table, in values
    std::size_t count = 0;
    math::Draw draw;
    std::size_t begin = 0;  // of its bytes: a multiple of 16
  };
  math::Encoding encoding;  // float32: the client encodes the update, or it is sent as it is
  std::optional<Compression::Correction> correction;  // of the gradient, before it is encoded
  std::vector<Part> parts;
  std::size_t bytes = 0;  // of all parts: a multiple of 16
};

/// Copies what a device keeps of a table's updates.
/// Errors  throws what the device throws
using ResidualSource = std::function<void(std::span<float> into)>;

/// What a member's updates have left out so far, by table: what math::encode() keeps of each slice,
/// in slice order, then the table's velocities if members apply momentum, [count]. Empty for a
/// table without residuals.
using Residuals = std::vector<std::vector<float>>;

}  // namespace taut
