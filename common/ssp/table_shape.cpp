#include "common/ssp/table_shape.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

namespace taut {

std::string words_of_shape(std::span<const std::int64_t> shape) {
  return shape.empty() ? "scalar" : fmt::format("{}", fmt::join(shape, "x"));
}

Result<std::uint64_t> count_of(std::span<const std::int64_t> shape) {
  if (shape.size() > kMaxTableDimensions) {
    return invalid(
        fmt::format("has {} dimensions; the limit is {}", shape.size(), kMaxTableDimensions));
  }
  std::uint64_t count = 1;
  for (const std::int64_t extent : shape) {
    if (extent < 1) {
      return invalid(
          fmt::format("has shape {}: extents must be at least 1", words_of_shape(shape)));
    }
    if (static_cast<std::uint64_t>(extent) > kMaxTableElements / count) {
      return invalid(fmt::format("has shape {}: more than the limit of {} values",
                                 words_of_shape(shape), kMaxTableElements));
    }
    count *= static_cast<std::uint64_t>(extent);
  }
  return count;
}

}  // namespace taut
