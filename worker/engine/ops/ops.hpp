#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>
#include <vector>

#include "common/types.hpp"
#include "worker/engine/device_memory.hpp"
#include "worker/engine/ops/device_op.hpp"
#include "worker/engine/stream.hpp"

// Shared by all files of operations. An operation is created once for a shape (Backend::make) and
// then run many times. Bottoms and tops are *tensors*: the backend chooses the order in memory of a
// rank-4 tensor's elements (Backend::write_tensor and read_tensor convert). Parameters and their
// gradients are always in Caffe's order, row by row. Every operation overwrites its outputs and is
// queued on the stream that it is given.
namespace taut {

/// Extents, outermost first; images are (N, C, H, W).
using Extents = std::vector<std::int64_t>;

struct ImageShape {
  std::int64_t n = 0;
  std::int64_t c = 0;
  std::int64_t h = 0;
  std::int64_t w = 0;

  [[nodiscard]] std::size_t count() const { return static_cast<std::size_t>(n * c * h * w); }
};

struct Window {
  std::int64_t kernel_h = 1;
  std::int64_t kernel_w = 1;
  std::int64_t stride_h = 1;
  std::int64_t stride_w = 1;
  std::int64_t pad_h = 0;
  std::int64_t pad_w = 0;
  std::int64_t dilation_h = 1;
  std::int64_t dilation_w = 1;
};

}  // namespace taut
