#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "common/types.hpp"
#include "worker/backend/device_memory.hpp"
#include "worker/backend/device_op.hpp"
#include "worker/backend/stream.hpp"

// Layer operations, created once for a shape and then run many times. Bottoms and tops are
// *tensors*: the backend chooses in what order the elements of a rank-4 tensor lie
// (Backend::write_tensor and read_tensor convert). Parameters and their gradients always lie in
// Caffe's order, row by row. Every operation overwrites its outputs and is queued on the stream
// that it is given.
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

struct ConvolutionSpec {
  ImageShape bottom;
  ImageShape top;
  /// Bottom and top are tensors of rank 3 (N, C, W), of height 1, and lie row by row.
  bool rows = false;
  Window window;
  std::int64_t group = 1;
  bool bias = true;
  bool bottom_gradient = true;  // whether backward_bottom will be asked for
};

enum class PoolingMethod : std::uint8_t { kMax, kAverage };

struct PoolingSpec {
  ImageShape bottom;
  ImageShape top;  // Caffe rounds up, so a last window may reach over the edge
  Window window;   // undilated
  PoolingMethod method = PoolingMethod::kMax;
};

/// MAX remembers the first largest element of each window; backward needs the last forward.
/// AVE divides by the window's size clipped to the padded image, padding included.
/// Source    Caffe, src/caffe/layers/pooling_layer.cpp
class PoolingOp : public DeviceOp {
 public:
  virtual void forward(Stream&, DeviceSpan<const float> bottom, DeviceSpan<float> top) = 0;
  virtual void backward(Stream&, DeviceSpan<const float> top_gradient,
                        DeviceSpan<float> bottom_gradient) = 0;
};

struct InnerProductSpec {
  Extents bottom;  // its elements, in Caffe's order, are `rows` rows of `inputs`
  std::int64_t rows = 0;
  std::int64_t inputs = 0;
  std::int64_t outputs = 0;
  bool bias = true;
};

/// What a convolution and an inner product share: a map with weights and an optional bias.
/// convolution    weights [top.c, bottom.c / group, kernel_h, kernel_w], bias [top.c]
/// inner product  weights [outputs, inputs], bias [outputs]; top [rows, outputs]
class LinearOp : public DeviceOp {
 public:
  /// bias  empty where the spec has none
  virtual void forward(Stream&, DeviceSpan<const float> bottom, DeviceSpan<const float> weights,
                       DeviceSpan<const float> bias, DeviceSpan<float> top) = 0;
  virtual void backward_bottom(Stream&, DeviceSpan<const float> top_gradient,
                               DeviceSpan<const float> weights,
                               DeviceSpan<float> bottom_gradient) = 0;
  /// An empty gradient span is one that nobody wants.
  virtual void backward_parameters(Stream&, DeviceSpan<const float> bottom,
                                   DeviceSpan<const float> top_gradient,
                                   DeviceSpan<float> weights_gradient,
                                   DeviceSpan<float> bias_gradient) = 0;
};

struct DropoutSpec {
  Extents shape;
  float ratio = 0.5F;  // the share of elements that are dropped, in [0, 1)
  std::uint64_t seed = 0;
  std::uint32_t slot = 0;   // of the member
  std::uint32_t layer = 0;  // in the net
};

/// What is dropped is a pure function of (seed, clock, slot, layer, index in Caffe's order); what
/// is kept is divided by the share that is kept. Top may be bottom, and either gradient the other.
/// Source    Srivastava et al., "Dropout: A Simple Way to Prevent Neural Networks from
/// Overfitting",
///           JMLR 15, 2014
class DropoutOp : public DeviceOp {
 public:
  virtual void forward(Stream&, Clock clock, DeviceSpan<const float> bottom,
                       DeviceSpan<float> top) = 0;
  /// With the mask of the last forward.
  virtual void backward(Stream&, DeviceSpan<const float> top_gradient,
                        DeviceSpan<float> bottom_gradient) = 0;
};

/// Classes lie along `axis`; every other index is one position with scores of its own.
struct SoftmaxSpec {
  Extents shape;
  std::size_t axis = 1;
};

class SoftmaxOp : public DeviceOp {
 public:
  virtual void forward(Stream&, DeviceSpan<const float> bottom, DeviceSpan<float> top) = 0;
  virtual void backward(Stream&, DeviceSpan<const float> top, DeviceSpan<const float> top_gradient,
                        DeviceSpan<float> bottom_gradient) = 0;
};

}  // namespace taut
