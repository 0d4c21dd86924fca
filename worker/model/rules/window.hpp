#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "common/result.hpp"
#include "proto/net.pb.h"

namespace taut::model {

/// The movement of a convolution or a pooling along one side of an image.
struct WindowSide {
  std::int64_t kernel = 1;
  std::int64_t stride = 1;
  std::int64_t pad = 0;  // before and after
  std::int64_t dilation = 1;

  /// The extent that the kernel covers, including holes.
  [[nodiscard]] std::int64_t covered() const { return dilation * (kernel - 1) + 1; }
  friend bool operator==(const WindowSide&, const WindowSide&) = default;
};

struct Window {
  WindowSide height;
  WindowSide width;
  friend bool operator==(const Window&, const Window&) = default;
};

/// The window from the fields of a convolution; repeated fields have one number for both sides, or
/// the height's and the width's. With one side (1-D signals), it is the width.
/// Errors    invalid: no kernel, a side given twice, zero or huge numbers; names the field
[[nodiscard]] Result<Window> convolution_window(const pb::ConvolutionParameter& parameter,
                                                std::size_t sides = 2);

/// The window of a pooling over a height x width image; global pooling covers all of it.
/// Errors    as convolution_window; a pad that is not smaller than the kernel
[[nodiscard]] Result<Window> pooling_window(const pb::PoolingParameter& parameter,
                                            std::int64_t height, std::int64_t width);

/// Positions of a convolution's window: floor((size + 2 pad - covered) / stride) + 1.
/// Errors    invalid: the kernel is larger than the padded input; gives the values
[[nodiscard]] Result<std::int64_t> convolution_extent(std::int64_t size, const WindowSide& side,
                                                      const std::string& side_name);

/// The size of a bottom from which a convolution would produce a top of `size`:
/// stride (size - 1) + covered - 2 pad. Errors: invalid, nothing is left of it; gives the values.
[[nodiscard]] Result<std::int64_t> deconvolution_extent(std::int64_t size, const WindowSide& side,
                                                        const std::string& side_name);

/// Positions of a pooling's window: the quotient is rounded up, and a last window that would start
/// after the image and its front pad is omitted. Caffe omits it only if there is a pad; without a
/// pad such a window would have no element. With round_down the quotient is rounded down.
/// Errors    as convolution_extent
/// Source    Caffe, pooling_layer.cpp, PoolingLayer::Reshape
[[nodiscard]] Result<std::int64_t> pooling_extent(std::int64_t size, const WindowSide& side,
                                                  const std::string& side_name,
                                                  bool round_down = false);

}  // namespace taut::model
