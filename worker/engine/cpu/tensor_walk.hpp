#pragma once

#include <cstddef>
#include <vector>

#include "worker/engine/ops/ops.hpp"

namespace taut::cpu {

/// The stride of each axis of a parameter, in Caffe's order.
[[nodiscard]] std::vector<std::size_t> row_strides(const Extents& shape);
/// Overload for a tensor, in this backend's order.
[[nodiscard]] std::vector<std::size_t> tensor_strides(const Extents& shape);

/// Traverses a tensor in the order of its memory, together with a smaller array that is repeated
/// along some of its axes. A stretch that is regular in both is one row.
class TensorWalk {
 public:
  /// small_strides  for each axis of `shape`; 0: the array is repeated along it
  TensorWalk(const Extents& shape, const std::vector<std::size_t>& small_strides);

  [[nodiscard]] std::size_t row_length() const { return row_.extent; }
  /// Within the array; 0: one of its elements corresponds to the whole row.
  [[nodiscard]] std::size_t row_stride() const { return row_.stride; }
  [[nodiscard]] std::size_t rows() const { return rows_; }
  /// The start of row `row` in the array; in the tensor it is row * row_length().
  [[nodiscard]] std::size_t small_offset(std::size_t row) const {
    std::size_t offset = 0;
    for (std::size_t i = outer_.size(); i-- > 0;) {
      offset += row % outer_[i].extent * outer_[i].stride;
      row /= outer_[i].extent;
    }
    return offset;
  }

 private:
  struct Axis {
    std::size_t extent = 1;
    std::size_t stride = 0;
  };
  Axis row_;
  std::vector<Axis> outer_;  // outermost first
  std::size_t rows_ = 1;
};

}  // namespace taut::cpu
