#pragma once

#include <cstdint>

#include "cuda/kernels/elementwise.hpp"

// The places of a view's elements (outer, length, inner).
namespace taut::cuda {

/// The index of element i along a view's length: its channel, if the length is the channels. A
/// 32-bit division costs far less, so it is used if all elements fit.
class PlaceOf {
 public:
  explicit PlaceOf(const AxisView& view)
      : length_(view.length),
        inner_(view.inner),
        is_small_(view.count() < (std::int64_t{1} << 31U)) {}

  __device__ std::int64_t operator()(std::int64_t i) const {
    if (is_small_) {
      return static_cast<std::uint32_t>(i) / static_cast<std::uint32_t>(inner_) %
             static_cast<std::uint32_t>(length_);
    }
    return i / inner_ % length_;
  }

 private:
  std::int64_t length_;
  std::int64_t inner_;
  bool is_small_;
};

/// The element of index 0 at a view's position, one of outer * inner; the others follow it at
/// distances of `inner`.
__device__ inline std::int64_t first_at(const AxisView& view, std::int64_t position) {
  const std::int64_t outer = position / view.inner;
  return outer * view.length * view.inner + (position - outer * view.inner);
}

}  // namespace taut::cuda
