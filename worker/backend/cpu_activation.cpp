#include <cmath>
#include <cstddef>

#include "worker/backend/cpu_ops.hpp"
#include "worker/backend/cpu_parallel.hpp"

namespace taut::cpu {
namespace {

/// One elementwise function: `Function` gives value(x) and slope(y), the derivative at the top's y.
template <class Function>
class Activation final : public ActivationOp {
 public:
  explicit Activation(Function function) : function_(function) {}

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

  void backward(Stream& stream, DeviceSpan<const float> top, DeviceSpan<const float> top_gradient,
                DeviceSpan<float> bottom_gradient) override {
    TAUT_CHECK(top.size() == bottom_gradient.size(), "an activation keeps the shape");
    enter(stream);
    const float* y = top.address();
    const float* dy = top_gradient.address();
    float* dx = bottom_gradient.address();
    const Function function = function_;
    parallel_ranges(top.size(), kElementGrain, [=](std::size_t begin, std::size_t end) {
      for (std::size_t i = begin; i < end; ++i) dx[i] = dy[i] * function.slope(y[i]);
    });
  }

 private:
  Function function_;
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

}  // namespace

std::unique_ptr<ActivationOp> make_activation(const ActivationSpec& spec) {
  switch (spec.kind) {
    case ActivationKind::kRelu:
      return std::make_unique<Activation<Relu>>(Relu{spec.negative_slope});
    case ActivationKind::kSigmoid:
      return std::make_unique<Activation<Sigmoid>>(Sigmoid{});
    case ActivationKind::kTanH:
      return std::make_unique<Activation<TanH>>(TanH{});
  }
  TAUT_CHECK(false, "an activation of no kind");
}

}  // namespace taut::cpu
