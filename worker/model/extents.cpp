#include "worker/model/extents.hpp"

#include <fmt/format.h>

namespace taut::model {

std::uint64_t element_count(const Shape& shape) {
  std::uint64_t product = 1;
  for (const std::int64_t extent : shape) product *= static_cast<std::uint64_t>(extent);
  return product;
}

std::string to_string(const Shape& shape) {
  return shape.empty() ? "scalar" : fmt::format("{}", fmt::join(shape, "x"));
}

Result<void> check_shape(const Shape& shape, const std::string& what) {
  std::uint64_t product = 1;
  for (const std::int64_t extent : shape) {
    if (extent < 1) {
      return invalid(
          fmt::format("{} has shape {}: extents must be at least 1", what, to_string(shape)));
    }
    if (static_cast<std::uint64_t>(extent) > kMaxElements / product) {
      return invalid(fmt::format("{} has shape {}: more than the limit of {} elements", what,
                                 to_string(shape), kMaxElements));
    }
    product *= static_cast<std::uint64_t>(extent);
  }
  return ok();
}

Result<std::size_t> axis_index(std::int64_t axis, const Shape& shape, const std::string& field) {
  const auto axes = static_cast<std::int64_t>(shape.size());
  if (axis < -axes || axis >= axes) {
    return invalid(fmt::format("{} is {}, but the bottom of shape {} has axes {} to {}", field,
                               axis, to_string(shape), -axes, axes - 1));
  }
  return static_cast<std::size_t>(axis < 0 ? axis + axes : axis);
}

std::int64_t extent_product(const Shape& shape, std::size_t first, std::size_t last) {
  std::int64_t product = 1;
  for (std::size_t axis = first; axis < last; ++axis) product *= shape[axis];
  return product;
}

}  // namespace taut::model
