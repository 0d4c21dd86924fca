#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "worker/engine/ops/ops.hpp"

// Operations on the elements at the same place of equally shaped tensors.
namespace taut {

/// y as a function of x; slopes are computed from y where possible, so that a layer may work in
/// place.
enum class ActivationKind : std::uint8_t {
  kRelu,     // x > 0 ? x : negative_slope x
  kSigmoid,  // 1 / (1 + exp(-x))
  kTanH,
  kElu,        // x > 0 ? x : alpha (exp(x) - 1)
  kExp,        // exp(log_base (scale x + shift))
  kPower,      // (scale x + shift) ^ power
  kLog,        // log(scale x + shift) / log_base
  kAbs,        // |x|, of slope 0 at 0
  kBnll,       // log(1 + exp(x))
  kClip,       // the nearest number in [low, high]
  kSwish,      // x / (1 + exp(-beta x))
  kThreshold,  // x > threshold ? 1 : 0, of slope 0
};

struct ActivationSpec {
  using Op = class ActivationOp;
  ActivationKind kind = ActivationKind::kRelu;
  float negative_slope = 0;  // kRelu; at least 0, so that the top has the bottom's sign
  float alpha = 1;           // kElu; at least 0
  float power = 1;           // kPower
  float scale = 1;           // kPower, kExp, kLog
  float shift = 0;           // kPower, kExp, kLog
  float log_base = 1;        // kExp, kLog: the base's natural logarithm
  float low = 0;             // kClip
  float high = 0;            // kClip
  float beta = 1;            // kSwish
  float threshold = 0;       // kThreshold

  /// Whether backward reads the bottom, which must then keep its values; else it reads the top.
  [[nodiscard]] constexpr bool reads_bottom() const {
    return kind == ActivationKind::kPower || kind == ActivationKind::kLog ||
           kind == ActivationKind::kAbs || kind == ActivationKind::kBnll ||
           kind == ActivationKind::kClip || kind == ActivationKind::kSwish;
  }
  [[nodiscard]] constexpr bool reads_top() const { return !reads_bottom(); }
};

/// Element by element; either gradient may be the other, and top may be bottom unless
/// the spec reads_bottom(). A ReLU's backward reads only the sign of the top.
/// Source    Caffe,
///           src/caffe/layers/{relu,elu,exp,power,log,absval,bnll,clip,swish,threshold}_layer.cpp
class ActivationOp : public DeviceOp {
 public:
  static constexpr std::string_view kName = "activation";
  virtual void forward(Stream&, DeviceSpan<const float> bottom, DeviceSpan<float> top) = 0;
  using Bottom = ReadIf<&ActivationSpec::reads_bottom>;
  using Top = ReadIf<&ActivationSpec::reads_top>;
  virtual void backward(Stream&, Bottom bottom, Top top, DeviceSpan<const float> top_gradient,
                        DeviceSpan<float> bottom_gradient) = 0;
};

/// One part of a Backend::weighted_sum.
struct Term {
  DeviceSpan<const float> values;
  float factor = 1;
};

enum class EltwiseKind : std::uint8_t {
  kProduct,
  kMax,  // ties: the first largest one gets the gradient
};

struct EltwiseSpec {
  using Op = class EltwiseOp;
  EltwiseKind kind = EltwiseKind::kProduct;
};

/// top = the product, or the maximum, over the bottoms, all of one size.
/// Source    Caffe, src/caffe/layers/eltwise_layer.cpp (stable_prod_grad)
class EltwiseOp : public DeviceOp {
 public:
  static constexpr std::string_view kName = "eltwise";
  virtual void forward(Stream&, std::span<const DeviceSpan<const float>> bottoms,
                       DeviceSpan<float> top) = 0;
  /// The gradient of bottoms[which]; the bottoms keep their values until then.
  virtual void backward(Stream&, std::span<const DeviceSpan<const float>> bottoms,
                        std::size_t which, DeviceSpan<const float> top_gradient,
                        DeviceSpan<float> bottom_gradient) = 0;
};

struct DropoutSpec {
  using Op = class DropoutOp;
  Extents shape;
  float ratio = 0.5F;  // the share of elements that are dropped, in [0, 1)
  std::uint64_t seed = 0;
  std::uint32_t slot = 0;   // of the member
  std::uint32_t layer = 0;  // in the net
};

/// The dropped elements are a pure function of (seed, clock, slot, layer, index in Caffe's order);
/// the kept ones are divided by the share that is kept. Top may be bottom, and either gradient may
/// be the other.
/// Source    Srivastava et al., "Dropout: A Simple Way to Prevent Neural Networks from
///           Overfitting", JMLR 15, 2014
class DropoutOp : public DeviceOp {
 public:
  static constexpr std::string_view kName = "dropout";
  virtual void forward(Stream&, Clock clock, DeviceSpan<const float> bottom,
                       DeviceSpan<float> top) = 0;
  /// Uses the mask of the last forward.
  virtual void backward(Stream&, DeviceSpan<const float> top_gradient,
                        DeviceSpan<float> bottom_gradient) = 0;
};

struct GeluSpec {
  using Op = class GeluOp;
};

/// top = x * P(X < x) for a standard normal X, element by element.
/// Source    Hendrycks and Gimpel, "Gaussian Error Linear Units", arXiv:1606.08415
class GeluOp : public DeviceOp {
 public:
  static constexpr std::string_view kName = "GELU";
  virtual void forward(Stream&, DeviceSpan<const float> bottom, DeviceSpan<float> top) = 0;
  virtual void backward(Stream&, DeviceSpan<const float> bottom,
                        DeviceSpan<const float> top_gradient,
                        DeviceSpan<float> bottom_gradient) = 0;
};

#define TAUT_ELEMENTWISE_SPECS(X) X(ActivationSpec) X(EltwiseSpec) X(DropoutSpec) X(GeluSpec)

}  // namespace taut
