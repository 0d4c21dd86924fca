#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>

#include "worker/engine/cpu/ops.hpp"
#include "worker/engine/cpu/parallel.hpp"

namespace taut::cpu {

AxisView view_along(const Extents& shape, std::size_t axis) {
  TAUT_CHECK(axis < shape.size(), "a shape has no such axis");
  Extents order;  // the axes' extents in the order of memory
  std::size_t place = axis;
  if (shape.size() == 4) {
    order = {shape[0], shape[2], shape[3], shape[1]};
    constexpr std::array<std::size_t, 4> kPlaces{0, 3, 1, 2};
    place = kPlaces[axis];
  } else {
    order = shape;
  }
  AxisView view;
  for (std::size_t i = 0; i < order.size(); ++i) {
    std::size_t& part = i < place ? view.outer : (i == place ? view.length : view.inner);
    part *= static_cast<std::size_t>(order[i]);
  }
  return view;
}

void softmax_of(const float* in, float* out, std::size_t length, std::size_t step) {
  float largest = in[0];
  for (std::size_t k = 1; k < length; ++k) largest = std::max(largest, in[k * step]);
  float sum = 0;
  for (std::size_t k = 0; k < length; ++k) {
    out[k * step] = std::exp(in[k * step] - largest);
    sum += out[k * step];
  }
  for (std::size_t k = 0; k < length; ++k) out[k * step] /= sum;
}

namespace {

class Softmax final : public SoftmaxOp {
 public:
  explicit Softmax(const SoftmaxSpec& spec) : view_(view_along(spec.shape, spec.axis)) {}

  void forward(Stream& stream, DeviceSpan<const float> bottom, DeviceSpan<float> top) override {
    enter(stream);
    for_each_position([&](std::size_t at) {
      softmax_of(bottom.address() + at, top.address() + at, view_.length, view_.inner);
    });
  }

  void backward(Stream& stream, DeviceSpan<const float> top, DeviceSpan<const float> top_gradient,
                DeviceSpan<float> bottom_gradient) override {
    enter(stream);
    for_each_position([&](std::size_t at) {
      const float* y = top.address() + at;
      const float* dy = top_gradient.address() + at;
      float* dx = bottom_gradient.address() + at;
      float dot = 0;
      for (std::size_t k = 0; k < view_.length; ++k)
        dot += y[k * view_.inner] * dy[k * view_.inner];
      for (std::size_t k = 0; k < view_.length; ++k) {
        dx[k * view_.inner] = y[k * view_.inner] * (dy[k * view_.inner] - dot);
      }
    });
  }

 private:
  /// Calls work(place) with the place of each position's first element.
  template <class Work>
  void for_each_position(const Work& work) const {
    const std::size_t grain = std::max<std::size_t>(kElementGrain / 16 / view_.length, 1);
    parallel_ranges(view_.positions(), grain, [&](std::size_t begin, std::size_t end) {
      for (std::size_t position = begin; position < end; ++position) {
        work(position / view_.inner * view_.length * view_.inner + position % view_.inner);
      }
    });
  }

  AxisView view_;
};

}  // namespace

std::unique_ptr<SoftmaxOp> make_op(const SoftmaxSpec& spec) {
  return std::make_unique<Softmax>(spec);
}

}  // namespace taut::cpu
