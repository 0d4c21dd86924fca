#pragma once

#include <cstdint>
#include <string_view>

#include "worker/engine/ops/ops.hpp"

namespace taut {

enum class PoolingMethod : std::uint8_t { kMax, kAverage };

struct PoolingSpec {
  using Op = class PoolingOp;
  ImageShape bottom;
  ImageShape top;  // Caffe rounds up, so a last window may extend beyond the edge
  Window window;   // undilated
  PoolingMethod method = PoolingMethod::kMax;
};

/// MAX remembers the first largest element of each window; backward needs the last forward.
/// AVE divides by the window's size clipped to the padded image, padding included.
/// Source    Caffe, src/caffe/layers/pooling_layer.cpp
class PoolingOp : public DeviceOp {
 public:
  static constexpr std::string_view kName = "pooling";
  virtual void forward(Stream&, DeviceSpan<const float> bottom, DeviceSpan<float> top) = 0;
  virtual void backward(Stream&, DeviceSpan<const float> top_gradient,
                        DeviceSpan<float> bottom_gradient) = 0;
};

struct StochasticPoolingSpec {
  using Op = class StochasticPoolingOp;
  ImageShape bottom;
  ImageShape top;
  Window window;         // undilated, without padding
  bool training = true;  // draws; otherwise the mean, weighted by the elements themselves
  std::uint64_t seed = 0;
  std::uint32_t slot = 0;   // of the member
  std::uint32_t layer = 0;  // in the net
};

/// One element of each window, drawn with probability proportional to its value; outside training
/// the sum of their squares over their sum. Elements must be at least 0, as after a ReLU. The draws
/// are a pure function of (seed, clock, slot, layer, index of the top's element in Caffe's
/// order).
/// Source    Zeiler and Fergus, "Stochastic Pooling for Regularization of Deep Convolutional Neural
///           Networks", ICLR 2013; Caffe, src/caffe/layers/pooling_layer.cu
class StochasticPoolingOp : public DeviceOp {
 public:
  static constexpr std::string_view kName = "stochastic pooling";
  virtual void forward(Stream&, Clock clock, DeviceSpan<const float> bottom,
                       DeviceSpan<float> top) = 0;
  /// The gradient goes to the elements that the last forward drew. REQUIRES: training.
  virtual void backward(Stream&, DeviceSpan<const float> top_gradient,
                        DeviceSpan<float> bottom_gradient) = 0;
};

#define TAUT_POOLING_SPECS(X) X(PoolingSpec) X(StochasticPoolingSpec)

}  // namespace taut
