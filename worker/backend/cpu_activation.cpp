#include <cstddef>

#include "common/math/activation.hpp"
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

template <class Function>
std::unique_ptr<ActivationOp> made(const ActivationSpec& spec, Function function) {
  return std::make_unique<Activation<Function>>(function, reads_bottom(spec.kind));
}

}  // namespace

std::unique_ptr<ActivationOp> make_activation(const ActivationSpec& spec) {
  switch (spec.kind) {
    case ActivationKind::kRelu:
      return made(spec, math::Relu{spec.negative_slope});
    case ActivationKind::kSigmoid:
      return made(spec, math::Sigmoid{});
    case ActivationKind::kTanH:
      return made(spec, math::TanH{});
    case ActivationKind::kElu:
      return made(spec, math::Elu{spec.alpha});
    case ActivationKind::kExp:
      return made(spec, math::Exp{spec.log_base * spec.scale, spec.log_base * spec.shift});
    case ActivationKind::kPower:
      return made(spec, math::Power{spec.power, spec.scale, spec.shift});
    case ActivationKind::kLog:
      return made(spec, math::Log{spec.scale, spec.shift, spec.log_base});
    case ActivationKind::kAbs:
      return made(spec, math::Abs{});
    case ActivationKind::kBnll:
      return made(spec, math::Bnll{});
  }
  TAUT_CHECK(false, "an activation of no kind");
}

}  // namespace taut::cpu
