#pragma once

#include <cstdint>

#include "cuda/kernels/elementwise.hpp"

// The places of a view's elements (outer, length, inner).
namespace taut::cuda {

/// Divides indices below `count`. A 32-bit division costs far less, so it is used if all of them
/// fit.
class Divider {
 public:
  Divider(std::int64_t divisor, std::int64_t count)
      : divisor_(divisor), is_small_(count < kSmall && divisor < kSmall) {}

  __device__ std::int64_t operator()(std::int64_t i) const {
    if (is_small_) return static_cast<std::uint32_t>(i) / static_cast<std::uint32_t>(divisor_);
    return i / divisor_;
  }
  [[nodiscard]] __device__ std::int64_t divisor() const { return divisor_; }

 private:
  static constexpr std::int64_t kSmall = std::int64_t{1} << 31U;
  std::int64_t divisor_;
  bool is_small_;
};

/// The index of element i along a view's length: its channel, if the length is the channels.
class PlaceOf {
 public:
  explicit PlaceOf(const AxisView& view)
      : by_inner_(view.inner, view.count()), by_length_(view.length, view.count()) {}

  __device__ std::int64_t operator()(std::int64_t i) const {
    const std::int64_t row = by_inner_(i);
    return row - by_length_(row) * by_length_.divisor();
  }

 private:
  Divider by_inner_;
  Divider by_length_;
};

/// The element of index 0 at a view's position, one of outer * inner; the others follow it at
/// distances of `inner`.
class FirstAt {
 public:
  explicit FirstAt(const AxisView& view)
      : by_inner_(view.inner, view.positions()), more_((view.length - 1) * view.inner) {}

  __device__ std::int64_t operator()(std::int64_t position) const {
    return position + by_inner_(position) * more_;
  }

 private:
  Divider by_inner_;
  std::int64_t more_;  // elements of a record, except those of one index
};

}  // namespace taut::cuda
