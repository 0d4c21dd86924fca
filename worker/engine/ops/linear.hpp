#pragma once

#include <cstdint>
#include <string_view>

#include "worker/engine/ops/ops.hpp"

// Products with weights.
namespace taut {

struct ConvolutionSpec {
  using Op = class LinearOp;
  ImageShape bottom;
  ImageShape top;
  /// Bottom and top are tensors of rank 3 (N, C, W), of height 1, stored row by row.
  bool rows = false;
  Window window;
  std::int64_t group = 1;
  bool bias = true;
  bool bottom_gradient = true;  // whether backward_bottom will be called
  /// For a deconvolution: its values are this convolution's top gradients, its gradients the
  /// bottoms.
  bool runs_backwards = false;
};

struct InnerProductSpec {
  using Op = class LinearOp;
  Extents bottom;  // its elements, in Caffe's order, are `rows` rows of `inputs`
  std::int64_t rows = 0;
  std::int64_t inputs = 0;
  std::int64_t outputs = 0;
  bool bias = true;
  bool transpose = false;  // the weights are [inputs, outputs]
};

/// Base of a convolution and an inner product: a linear map with weights and an optional bias.
/// convolution    weights [top.c, bottom.c / group, kernel_h, kernel_w], bias [top.c]
/// inner product  weights [outputs, inputs], or transposed, bias [outputs]; top [rows, outputs]
class LinearOp : public DeviceOp {
 public:
  static constexpr std::string_view kName = "product";
  static constexpr bool kLeavesScratch = true;
  /// bias  empty if the spec has none
  virtual void forward(Stream&, DeviceSpan<const float> bottom, DeviceSpan<const float> weights,
                       DeviceSpan<const float> bias, DeviceSpan<float> top) = 0;
  virtual void backward_bottom(Stream&, DeviceSpan<const float> top_gradient,
                               DeviceSpan<const float> weights,
                               DeviceSpan<float> bottom_gradient) = 0;
  /// An empty gradient is not computed.
  virtual void backward_parameters(Stream&, DeviceSpan<const float> bottom,
                                   DeviceSpan<const float> top_gradient,
                                   DeviceSpan<float> weights_gradient,
                                   DeviceSpan<float> bias_gradient) = 0;
};

#define TAUT_LINEAR_SPECS(X) X(ConvolutionSpec) X(InnerProductSpec)

}  // namespace taut
