#pragma once

#include <cmath>
#include <variant>

#include "common/math/host_device.hpp"

// The elementwise functions that layers apply. Each has value(x) and slope(v), the derivative: v is
// x for those that need the bottom (Power, Log, Abs, Bnll, Clip, Swish), and the top's y otherwise.
// Source    Caffe,
//           src/caffe/layers/{relu,elu,exp,power,log,absval,bnll,clip,swish,threshold}_layer.cpp
namespace taut::math {

struct Relu {
  float negative_slope;
  [[nodiscard]] TAUT_HD float value(float x) const { return x > 0 ? x : negative_slope * x; }
  [[nodiscard]] TAUT_HD float slope(float y) const { return y > 0 ? 1.0F : negative_slope; }
};

struct Sigmoid {
  [[nodiscard]] TAUT_HD float value(float x) const { return 1 / (1 + std::exp(-x)); }
  [[nodiscard]] TAUT_HD float slope(float y) const { return y * (1 - y); }
};

struct TanH {
  [[nodiscard]] TAUT_HD float value(float x) const { return std::tanh(x); }
  [[nodiscard]] TAUT_HD float slope(float y) const { return 1 - y * y; }
};

struct Elu {
  float alpha;
  [[nodiscard]] TAUT_HD float value(float x) const { return x > 0 ? x : alpha * std::expm1(x); }
  [[nodiscard]] TAUT_HD float slope(float y) const { return y > 0 ? 1.0F : y + alpha; }
};

struct Exp {
  float inner;  // of x
  float shift;
  [[nodiscard]] TAUT_HD float value(float x) const { return std::exp(inner * x + shift); }
  [[nodiscard]] TAUT_HD float slope(float y) const { return inner * y; }
};

struct Power {
  float power;
  float scale;
  float shift;
  [[nodiscard]] TAUT_HD float value(float x) const {
    const float base = scale * x + shift;
    if (power == 1) return base;
    return power == 2 ? base * base : std::pow(base, power);
  }
  [[nodiscard]] TAUT_HD float slope(float x) const {
    if (power == 1) return scale;
    const float base = scale * x + shift;
    return power * scale * (power == 2 ? base : std::pow(base, power - 1));
  }
};

struct Log {
  float scale;
  float shift;
  float log_base;
  [[nodiscard]] TAUT_HD float value(float x) const {
    return std::log(scale * x + shift) / log_base;
  }
  [[nodiscard]] TAUT_HD float slope(float x) const {
    return scale / ((scale * x + shift) * log_base);
  }
};

struct Abs {
  [[nodiscard]] TAUT_HD float value(float x) const { return std::fabs(x); }
  [[nodiscard]] TAUT_HD float slope(float x) const {
    return static_cast<float>(x > 0) - static_cast<float>(x < 0);
  }
};

/// NaN stays NaN.
struct Clip {
  float low;
  float high;
  [[nodiscard]] TAUT_HD float value(float x) const { return x < low ? low : (x > high ? high : x); }
  [[nodiscard]] TAUT_HD float slope(float x) const { return x >= low && x <= high ? 1.0F : 0.0F; }
};

struct Swish {
  float beta;
  [[nodiscard]] TAUT_HD float value(float x) const { return x / (1 + std::exp(-beta * x)); }
  [[nodiscard]] TAUT_HD float slope(float x) const {
    const float gate = 1 / (1 + std::exp(-beta * x));
    return gate + beta * x * gate * (1 - gate);
  }
};

struct Threshold {
  float threshold;
  [[nodiscard]] TAUT_HD float value(float x) const { return x > threshold ? 1.0F : 0.0F; }
  [[nodiscard]] TAUT_HD float slope(float /*x*/) const { return 0; }
};

/// Written so that no exponential overflows.
struct Bnll {
  [[nodiscard]] TAUT_HD float value(float x) const {
    return (x > 0 ? x : 0.0F) + std::log1p(std::exp(-std::fabs(x)));
  }
  [[nodiscard]] TAUT_HD float slope(float x) const { return 1 / (1 + std::exp(-x)); }
};

/// All of them; a new one is added here, and to ActivationKind of worker/engine/ops.
using Activation =
    std::variant<Relu, Sigmoid, TanH, Elu, Exp, Power, Log, Abs, Bnll, Clip, Swish, Threshold>;

}  // namespace taut::math
