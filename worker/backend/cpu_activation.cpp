#include <algorithm>
#include <cmath>
#include <cstddef>

#include "worker/backend/cpu_ops.hpp"
#include "worker/backend/cpu_parallel.hpp"

namespace taut::cpu {
namespace {

/// One elementwise function: `Function` gives value(x) and slope(v), the derivative where v is the
/// bottom's x if the kind reads the bottom, else the top's y.
template <class Function>
class Activation final : public ActivationOp {
 public:
  Activation(Function function, bool reads_bottom)
      : function_(function), reads_bottom_(reads_bottom) {}

  void forward(Stream& stream, DeviceSpan<const float> bottom, DeviceSpan<float> top) override {
    TAUT_CHECK(bottom.size() == top.size(), "an activation keeps the shape");
    enter(stream);
    const float* x = bottom.address();
    float* y = top.address();
    const Function function = function_;
    parallel_ranges(top.size(), kElementGrain, [=](std::size_t begin, std::size_t end) {
      for (std::size_t i = begin; i < end; ++i) y[i] = function.value(x[i]);
    });
  }

  void backward(Stream& stream, DeviceSpan<const float> bottom, DeviceSpan<const float> top,
                DeviceSpan<const float> top_gradient, DeviceSpan<float> bottom_gradient) override {
    const DeviceSpan<const float> at = reads_bottom_ ? bottom : top;
    TAUT_CHECK(at.size() == bottom_gradient.size(), "an activation keeps the shape");
    enter(stream);
    const float* v = at.address();
    const float* dy = top_gradient.address();
    float* dx = bottom_gradient.address();
    const Function function = function_;
    parallel_ranges(at.size(), kElementGrain, [=](std::size_t begin, std::size_t end) {
      for (std::size_t i = begin; i < end; ++i) dx[i] = dy[i] * function.slope(v[i]);
    });
  }

 private:
  Function function_;
  bool reads_bottom_;
};

struct Relu {
  float negative_slope;
  [[nodiscard]] float value(float x) const { return x > 0 ? x : negative_slope * x; }
  [[nodiscard]] float slope(float y) const { return y > 0 ? 1.0F : negative_slope; }
};

struct Sigmoid {
  [[nodiscard]] float value(float x) const { return 1 / (1 + std::exp(-x)); }
  [[nodiscard]] float slope(float y) const { return y * (1 - y); }
};

struct TanH {
  [[nodiscard]] float value(float x) const { return std::tanh(x); }
  [[nodiscard]] float slope(float y) const { return 1 - y * y; }
};

struct Elu {
  float alpha;
  [[nodiscard]] float value(float x) const { return x > 0 ? x : alpha * std::expm1(x); }
  [[nodiscard]] float slope(float y) const { return y > 0 ? 1.0F : y + alpha; }
};

struct Exp {
  float inner;  // of x
  float shift;
  [[nodiscard]] float value(float x) const { return std::exp(inner * x + shift); }
  [[nodiscard]] float slope(float y) const { return inner * y; }
};

struct Power {
  float power;
  float scale;
  float shift;
  [[nodiscard]] float value(float x) const {
    const float base = scale * x + shift;
    if (power == 1) return base;
    return power == 2 ? base * base : std::pow(base, power);
  }
  [[nodiscard]] float slope(float x) const {
    if (power == 1) return scale;
    const float base = scale * x + shift;
    return power * scale * (power == 2 ? base : std::pow(base, power - 1));
  }
};

struct Log {
  float scale;
  float shift;
  float log_base;
  [[nodiscard]] float value(float x) const { return std::log(scale * x + shift) / log_base; }
  [[nodiscard]] float slope(float x) const { return scale / ((scale * x + shift) * log_base); }
};

struct Abs {
  [[nodiscard]] float value(float x) const { return std::abs(x); }
  [[nodiscard]] float slope(float x) const {
    return static_cast<float>(x > 0) - static_cast<float>(x < 0);
  }
};

/// Written so that no exponential overflows.
struct Bnll {
  [[nodiscard]] float value(float x) const {
    return std::max(x, 0.0F) + std::log1p(std::exp(-std::abs(x)));
  }
  [[nodiscard]] float slope(float x) const { return 1 / (1 + std::exp(-x)); }
};

template <class Function>
std::unique_ptr<ActivationOp> made(const ActivationSpec& spec, Function function) {
  return std::make_unique<Activation<Function>>(function, reads_bottom(spec.kind));
}

}  // namespace

std::unique_ptr<ActivationOp> make_activation(const ActivationSpec& spec) {
  switch (spec.kind) {
    case ActivationKind::kRelu:
      return made(spec, Relu{spec.negative_slope});
    case ActivationKind::kSigmoid:
      return made(spec, Sigmoid{});
    case ActivationKind::kTanH:
      return made(spec, TanH{});
    case ActivationKind::kElu:
      return made(spec, Elu{spec.alpha});
    case ActivationKind::kExp:
      return made(spec, Exp{spec.log_base * spec.scale, spec.log_base * spec.shift});
    case ActivationKind::kPower:
      return made(spec, Power{spec.power, spec.scale, spec.shift});
    case ActivationKind::kLog:
      return made(spec, Log{spec.scale, spec.shift, spec.log_base});
    case ActivationKind::kAbs:
      return made(spec, Abs{});
    case ActivationKind::kBnll:
      return made(spec, Bnll{});
  }
  TAUT_CHECK(false, "an activation of no kind");
}

}  // namespace taut::cpu
