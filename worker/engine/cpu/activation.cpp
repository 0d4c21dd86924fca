#include <cstddef>
#include <variant>

#include "worker/engine/cpu/ops.hpp"
#include "worker/engine/cpu/parallel.hpp"
#include "worker/engine/ops/activation_function.hpp"

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

  void backward(Stream& stream, Bottom bottom, Top top, DeviceSpan<const float> top_gradient,
                DeviceSpan<float> bottom_gradient) override {
    const MaybeRead at = reads_bottom_ ? MaybeRead(bottom) : MaybeRead(top);
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

}  // namespace

std::unique_ptr<ActivationOp> make_op(const ActivationSpec& spec) {
  return std::visit(
      [&](auto function) -> std::unique_ptr<ActivationOp> {
        return std::make_unique<Activation<decltype(function)>>(function, spec.reads_bottom());
      },
      activation_function(spec));
}

}  // namespace taut::cpu
