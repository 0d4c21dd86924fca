#include "worker/engine/cpu/tensor_walk.hpp"

#include <array>

#include "common/check.hpp"

namespace taut::cpu {
namespace {

/// The axes in the order of memory, outermost first.
std::vector<std::size_t> memory_order(std::size_t axes) {
  if (axes == 4) return {0, 2, 3, 1};
  std::vector<std::size_t> order(axes);
  for (std::size_t i = 0; i < axes; ++i) order[i] = i;
  return order;
}

std::vector<std::size_t> strides_in(const std::vector<std::size_t>& order, const Extents& shape) {
  std::vector<std::size_t> strides(shape.size());
  std::size_t stride = 1;
  for (std::size_t i = order.size(); i-- > 0;) {
    strides[order[i]] = stride;
    stride *= static_cast<std::size_t>(shape[order[i]]);
  }
  return strides;
}

}  // namespace

std::vector<std::size_t> row_strides(const Extents& shape) {
  std::vector<std::size_t> order(shape.size());
  for (std::size_t i = 0; i < order.size(); ++i) order[i] = i;
  return strides_in(order, shape);
}

std::vector<std::size_t> tensor_strides(const Extents& shape) {
  return strides_in(memory_order(shape.size()), shape);
}

TensorWalk::TensorWalk(const Extents& shape, const std::vector<std::size_t>& small_strides) {
  TAUT_CHECK(shape.size() == small_strides.size(), "a stride for each axis");
  for (const std::size_t axis : memory_order(shape.size())) {
    const Axis next{static_cast<std::size_t>(shape[axis]), small_strides[axis]};
    if (next.extent == 1) continue;
    // The axis before joins this one if both are contiguous in the array too.
    if (!outer_.empty() && outer_.back().stride == next.stride * next.extent) {
      outer_.back() = {outer_.back().extent * next.extent, next.stride};
    } else {
      outer_.push_back(next);
    }
  }
  if (!outer_.empty()) {
    row_ = outer_.back();
    outer_.pop_back();
  }
  for (const Axis& axis : outer_) rows_ *= axis.extent;
}

}  // namespace taut::cpu
