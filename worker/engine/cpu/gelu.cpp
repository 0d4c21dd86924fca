#include <cstddef>

#include "worker/engine/cpu/ops.hpp"
#include "worker/engine/cpu/parallel.hpp"
#include "worker/engine/cpu/vector_math.hpp"

namespace taut::cpu {
namespace {

constexpr float kRootHalf = 0.70710678F;       // 1 / sqrt(2)
constexpr float kDensityAtZero = 0.39894228F;  // 1 / sqrt(2 pi)

TAUT_VECTOR_LOOP void gelu(const float* x, float* y, std::size_t begin, std::size_t end) {
#pragma GCC ivdep
  for (std::size_t i = begin; i < end; ++i) {
    const float half_square = exp_of(-0.5F * x[i] * x[i]);
    y[i] = 0.5F * x[i] * (1.0F + erf_of(x[i] * kRootHalf, half_square));
  }
}

TAUT_VECTOR_LOOP void gelu_gradient(const float* x, const float* dy, float* dx, std::size_t begin,
                                    std::size_t end) {
#pragma GCC ivdep
  for (std::size_t i = begin; i < end; ++i) {
    const float half_square = exp_of(-0.5F * x[i] * x[i]);
    const float below = 0.5F * (1.0F + erf_of(x[i] * kRootHalf, half_square));
    dx[i] = dy[i] * (below + x[i] * kDensityAtZero * half_square);
  }
}

class Gelu final : public GeluOp {
 public:
  void forward(Stream& stream, DeviceSpan<const float> bottom, DeviceSpan<float> top) override {
    enter(stream);
    parallel_ranges(top.size(), kElementGrain, [&](std::size_t begin, std::size_t end) {
      gelu(bottom.address(), top.address(), begin, end);
    });
  }

  void backward(Stream& stream, DeviceSpan<const float> bottom,
                DeviceSpan<const float> top_gradient, DeviceSpan<float> bottom_gradient) override {
    enter(stream);
    parallel_ranges(bottom.size(), kElementGrain, [&](std::size_t begin, std::size_t end) {
      gelu_gradient(bottom.address(), top_gradient.address(), bottom_gradient.address(), begin,
                    end);
    });
  }
};

}  // namespace

std::unique_ptr<GeluOp> make_op(const GeluSpec&) {
  return std::make_unique<Gelu>();
}

}  // namespace taut::cpu
