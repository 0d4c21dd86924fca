#pragma once

#include <cstddef>
#include <string>

#include "common/result.hpp"
#include "worker/model/graph.hpp"

namespace taut::model {

/// Larger blobs and parameters are refused: far more than any device's memory, far from overflow.
inline constexpr std::uint64_t kMaxElements = 1ULL << 40;

/// Errors    invalid: an extent below 1, or more than kMaxElements elements; starts with `what`
[[nodiscard]] Result<void> check_shape(const Shape& shape, const std::string& what);

/// An axis that may count from the end (-1 is the last one), as an index into the shape.
/// Errors    invalid: no such axis; names `field`
[[nodiscard]] Result<std::size_t> axis_index(std::int64_t axis, const Shape& shape,
                                             const std::string& field);

/// The product of the extents in [first, last). REQUIRES: a shape that check_shape passes.
[[nodiscard]] std::int64_t extent_product(const Shape& shape, std::size_t first, std::size_t last);

/// The start of a Crop along the axis that is `axis` after its first one.
[[nodiscard]] inline std::int64_t crop_offset(const pb::CropParameter& parameter,
                                              std::size_t axis) {
  const int given = parameter.offset_size();
  if (given == 0) return 0;
  return parameter.offset(given == 1 ? 0 : static_cast<int>(axis));
}

}  // namespace taut::model
