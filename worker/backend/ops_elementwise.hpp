#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "worker/backend/ops.hpp"

// Operations on elements that stand at the same place of equally shaped tensors.
namespace taut {

/// y of x; slopes from y where they can be, so that a layer may work in place.
enum class ActivationKind : std::uint8_t {
  kRelu,     // x > 0 ? x : negative_slope x
  kSigmoid,  // 1 / (1 + exp(-x))
  kTanH,
  kElu,    // x > 0 ? x : alpha (exp(x) - 1)
  kExp,    // exp(log_base (scale x + shift))
  kPower,  // (scale x + shift) ^ power
  kLog,    // log(scale x + shift) / log_base
  kAbs,    // |x|, of slope 0 at 0
  kBnll,   // log(1 + exp(x))
};

/// Whether backward reads the bottom, which must then keep its values; else it reads the top.
[[nodiscard]] constexpr bool reads_bottom(ActivationKind kind) {
  return kind == ActivationKind::kPower || kind == ActivationKind::kLog ||
         kind == ActivationKind::kAbs || kind == ActivationKind::kBnll;
}

struct ActivationSpec {
  ActivationKind kind = ActivationKind::kRelu;
  float negative_slope = 0;  // kRelu; not below 0, so that top has bottom's sign
  float alpha = 1;           // kElu; not below 0
  float power = 1;           // kPower
  float scale = 1;           // kPower, kExp, kLog
  float shift = 0;           // kPower, kExp, kLog
  float log_base = 1;        // kExp, kLog: the base's natural logarithm
};

/// Element by element; either gradient may be the other, and top may be bottom unless
/// reads_bottom(). Of a ReLU's top backward reads only the sign.
/// Source    Caffe, src/caffe/layers/{relu,elu,exp,power,log,absval,bnll}_layer.cpp
class ActivationOp : public DeviceOp {
 public:
  virtual void forward(Stream&, DeviceSpan<const float> bottom, DeviceSpan<float> top) = 0;
  virtual void backward(Stream&, DeviceSpan<const float> bottom, DeviceSpan<const float> top,
                        DeviceSpan<const float> top_gradient,
                        DeviceSpan<float> bottom_gradient) = 0;
};

/// One part of a Backend::weighted_sum.
struct Term {
  DeviceSpan<const float> values;
  float factor = 1;
};

enum class EltwiseKind : std::uint8_t {
  kProduct,
  kMax,  // of several largest the first one gets the gradient
};

/// top = the product, or the maximum, over the bottoms, all of one size.
/// Source    Caffe, src/caffe/layers/eltwise_layer.cpp (stable_prod_grad)
class EltwiseOp : public DeviceOp {
 public:
  virtual void forward(Stream&, std::span<const DeviceSpan<const float>> bottoms,
                       DeviceSpan<float> top) = 0;
  /// The gradient of bottoms[which]; the bottoms keep their values until then.
  virtual void backward(Stream&, std::span<const DeviceSpan<const float>> bottoms,
                        std::size_t which, DeviceSpan<const float> top_gradient,
                        DeviceSpan<float> bottom_gradient) = 0;
};

}  // namespace taut
