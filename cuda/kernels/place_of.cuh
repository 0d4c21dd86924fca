#pragma once

#include <cstdint>

#include "cuda/kernels/elementwise.hpp"

// Where elements of a view (outer, length, inner) stand.
namespace taut::cuda {

/// Which index of a view's length element i has: its channel, where the length is the channels. A
/// division of 32 bits costs far less, so it is taken where all elements fit.
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

/// The element of index 0 at a view's position, one of outer * inner; the others follow it, `inner`
/// apart.
__device__ inline std::int64_t first_at(const AxisView& view, std::int64_t position) {
  const std::int64_t outer = position / view.inner;
  return outer * view.length * view.inner + (position - outer * view.inner);
}

}  // namespace taut::cuda
