#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

#include "worker/engine/ops/ops.hpp"

// Operations with separate numbers for every channel, or for every index of some axes.
namespace taut {

/// One factor, and one summand, for each index of the axes from `axis` on.
struct AffineSpec {
  using Op = class AffineOp;
  Extents shape;  // of bottom and top
  std::size_t axis = 1;
  Extents factors;  // the extents of shape's axes from `axis` on that the factors cover
  bool scale = true;
  bool bias = false;
  /// The factors are a tensor of the net, in the backend's order of tensors; else they are a
  /// parameter in Caffe's order.
  bool factors_are_tensor = false;
};

/// top = bottom * factors + summands, each repeated along the other axes. Top may be bottom if
/// there are no factors, or if their gradient is not computed.
/// Source    Caffe, src/caffe/layers/scale_layer.cpp and bias_layer.cpp
class AffineOp : public DeviceOp {
 public:
  static constexpr std::string_view kName = "affine";
  /// factors, summands  empty if the spec has none
  virtual void forward(Stream&, DeviceSpan<const float> bottom, DeviceSpan<const float> factors,
                       DeviceSpan<const float> summands, DeviceSpan<float> top) = 0;
  /// An empty gradient is not computed. Either tensor gradient may be the other.
  using Bottom = ReadFor<4>;  // factors_gradient
  virtual void backward(Stream&, Bottom bottom, DeviceSpan<const float> factors,
                        DeviceSpan<const float> top_gradient, DeviceSpan<float> bottom_gradient,
                        DeviceSpan<float> factors_gradient,
                        DeviceSpan<float> summands_gradient) = 0;
};

struct PReluSpec {
  using Op = class PReluOp;
  Extents shape;  // channels along axis 1
  bool shared = false;
};

/// top = bottom > 0 ? bottom : slope * bottom; one slope per channel, or one for all.
/// Source    He et al., "Delving Deep into Rectifiers", ICCV 2015
class PReluOp : public DeviceOp {
 public:
  static constexpr std::string_view kName = "PReLU";
  virtual void forward(Stream&, DeviceSpan<const float> bottom, DeviceSpan<const float> slopes,
                       DeviceSpan<float> top) = 0;
  /// An empty gradient is not computed.
  virtual void backward(Stream&, DeviceSpan<const float> bottom, DeviceSpan<const float> slopes,
                        DeviceSpan<const float> top_gradient, DeviceSpan<float> bottom_gradient,
                        DeviceSpan<float> slopes_gradient) = 0;
};

struct BatchNormSpec {
  using Op = class BatchNormOp;
  Extents shape;  // channels along axis 1
  float epsilon = 1e-5F;
};

/// top = (bottom - mean) / sqrt(variance + epsilon), for each channel. Top may be bottom: backward
/// reads the top.
/// Source    Ioffe and Szegedy, "Batch Normalization", ICML 2015; Caffe, batch_norm_layer.cpp
class BatchNormOp : public DeviceOp {
 public:
  static constexpr std::string_view kName = "batch normalisation";
  /// Normalizes with the batch's statistics, and writes them.
  /// mean, variance  [channels]; the variance is the batch's, divided by its count
  virtual void forward(Stream&, DeviceSpan<const float> bottom, DeviceSpan<float> top,
                       DeviceSpan<float> mean, DeviceSpan<float> variance) = 0;
  /// Follows a forward.
  virtual void backward(Stream&, DeviceSpan<const float> top, DeviceSpan<const float> top_gradient,
                        DeviceSpan<float> bottom_gradient) = 0;

  /// Normalizes with kept statistics: sums that are divided by weight [1]; weight 0 makes them 0.
  virtual void forward_kept(Stream&, DeviceSpan<const float> bottom, DeviceSpan<const float> mean,
                            DeviceSpan<const float> variance, DeviceSpan<const float> weight,
                            DeviceSpan<float> top) = 0;
  /// Follows a forward_kept: the statistics are constants.
  virtual void backward_kept(Stream&, DeviceSpan<const float> top_gradient,
                             DeviceSpan<float> bottom_gradient) = 0;
};

enum class LrnRegion : std::uint8_t { kAcrossChannels, kWithinChannel };

struct LrnSpec {
  using Op = class LrnOp;
  ImageShape shape;
  LrnRegion region = LrnRegion::kAcrossChannels;
  std::int64_t size = 5;  // odd; the side of the neighbourhood
  float alpha = 1;
  float beta = 0.75F;
  float k = 1;
};

/// top = bottom * (k + alpha / n * sum over the neighbourhood of bottom^2) ^ -beta, where n is
/// `size` across channels and size * size within one; positions outside the image count as 0.
/// Source    Krizhevsky et al., "ImageNet Classification with Deep Convolutional Neural Networks",
/// NIPS 2012, section 3.3; Caffe, src/caffe/layers/lrn_layer.cpp
class LrnOp : public DeviceOp {
 public:
  static constexpr std::string_view kName = "LRN";
  virtual void forward(Stream&, DeviceSpan<const float> bottom, DeviceSpan<float> top) = 0;
  /// Follows a forward; the bottom still has its values.
  virtual void backward(Stream&, DeviceSpan<const float> bottom,
                        DeviceSpan<const float> top_gradient,
                        DeviceSpan<float> bottom_gradient) = 0;
};

#define TAUT_CHANNEL_SPECS(X) X(AffineSpec) X(PReluSpec) X(BatchNormSpec) X(LrnSpec)

}  // namespace taut
