#include <algorithm>
#include <bit>
#include <cstddef>
#include <limits>

#include "common/math/philox.hpp"
#include "worker/engine/cpu/dnnl/dnnl.hpp"
#include "worker/engine/cpu/ops.hpp"
#include "worker/engine/cpu/own_memory.hpp"
#include "worker/engine/cpu/parallel.hpp"

namespace taut::cpu {
namespace {

/// The extent of a window along one side.
struct Reach {
  std::int64_t begin = 0;  // within the image
  std::int64_t end = 0;
  std::int64_t padded = 0;  // counted by the divisor: within the padded image
};

Reach reach_of(std::int64_t position, std::int64_t size, std::int64_t kernel, std::int64_t stride,
               std::int64_t pad) {
  const std::int64_t begin = position * stride - pad;
  const std::int64_t end = std::min(begin + kernel, size + pad);
  return {std::max<std::int64_t>(begin, 0), std::min(end, size), end - begin};
}

/// oneDNN's averages divide by the whole kernel, or by the part inside the image; Caffe's divide by
/// neither if the last window extends over the padding. Hence this implementation.
class AveragePooling final : public PoolingOp {
 public:
  explicit AveragePooling(const PoolingSpec& spec) : spec_(spec) {}

  void forward(Stream& stream, DeviceSpan<const float> bottom, DeviceSpan<float> top) override {
    enter(stream);
    for_each_image([&](std::int64_t image) {
      const float* in = bottom.address() + image * elements(spec_.bottom);
      float* out = top.address() + image * elements(spec_.top);
      for_each_window([&](const Reach& h, const Reach& w) {
        std::fill_n(out, spec_.top.c, 0.0F);
        for_each_pixel(h, w, [&](std::int64_t pixel) {
          for (std::int64_t c = 0; c < spec_.top.c; ++c) out[c] += in[pixel * spec_.top.c + c];
        });
        const float share = 1 / static_cast<float>(h.padded * w.padded);
        for (std::int64_t c = 0; c < spec_.top.c; ++c) out[c] *= share;
        out += spec_.top.c;
      });
    });
  }

  void backward(Stream& stream, DeviceSpan<const float> top_gradient,
                DeviceSpan<float> bottom_gradient) override {
    enter(stream);
    for_each_image([&](std::int64_t image) {
      const float* out = top_gradient.address() + image * elements(spec_.top);
      float* in = bottom_gradient.address() + image * elements(spec_.bottom);
      std::fill_n(in, elements(spec_.bottom), 0.0F);
      for_each_window([&](const Reach& h, const Reach& w) {
        const float share = 1 / static_cast<float>(h.padded * w.padded);
        for_each_pixel(h, w, [&](std::int64_t pixel) {
          for (std::int64_t c = 0; c < spec_.top.c; ++c) {
            in[pixel * spec_.top.c + c] += share * out[c];
          }
        });
        out += spec_.top.c;
      });
    });
  }

 private:
  static std::int64_t elements(const ImageShape& shape) { return shape.c * shape.h * shape.w; }

  template <class Work>
  void for_each_image(const Work& work) const {
    parallel_ranges(static_cast<std::size_t>(spec_.bottom.n), 1,
                    [&](std::size_t begin, std::size_t end) {
                      for (std::size_t image = begin; image < end; ++image) {
                        work(static_cast<std::int64_t>(image));
                      }
                    });
  }

  /// Calls `work` in the order in which the top's pixels are stored.
  template <class Work>
  void for_each_window(const Work& work) const {
    const Window& window = spec_.window;
    for (std::int64_t y = 0; y < spec_.top.h; ++y) {
      const Reach h = reach_of(y, spec_.bottom.h, window.kernel_h, window.stride_h, window.pad_h);
      for (std::int64_t x = 0; x < spec_.top.w; ++x) {
        work(h, reach_of(x, spec_.bottom.w, window.kernel_w, window.stride_w, window.pad_w));
      }
    }
  }

  template <class Work>
  void for_each_pixel(const Reach& h, const Reach& w, const Work& work) const {
    for (std::int64_t y = h.begin; y < h.end; ++y) {
      for (std::int64_t x = w.begin; x < w.end; ++x) work(y * spec_.bottom.w + x);
    }
  }

  PoolingSpec spec_;
};

/// Records from which pixel of its plane each element of the top was drawn.
class StochasticPooling final : public StochasticPoolingOp {
 public:
  explicit StochasticPooling(const StochasticPoolingSpec& spec)
      : spec_(spec), chosen_(spec.training ? spec.top.count() : 0) {}

  OpMemory own_memory() const override { return {bytes_of({&chosen_}), {}}; }
  void lend(DeviceSpan<float> kept, DeviceSpan<float>) override { lend_in_turn(kept, {&chosen_}); }

  void forward(Stream& stream, Clock clock, DeviceSpan<const float> bottom,
               DeviceSpan<float> top) override {
    enter(stream);
    each_element([&](const Place& place, std::int64_t index) {
      const float* plane = bottom.address() + place.plane_of_bottom(spec_.bottom);
      const std::int64_t at = place.in_top(spec_.top);
      if (!spec_.training) {
        top.address()[at] = weighed_mean(plane, place);
        return;
      }
      const std::int64_t pixel = draw(plane, place, unit(clock, index));
      chosen_[static_cast<std::size_t>(at)] =
          std::bit_cast<float>(static_cast<std::int32_t>(pixel));
      top.address()[at] = plane[pixel * spec_.bottom.c];
    });
  }

  void backward(Stream& stream, DeviceSpan<const float> top_gradient,
                DeviceSpan<float> bottom_gradient) override {
    TAUT_CHECK(spec_.training, "stochastic pooling has a gradient in training only");
    enter(stream);
    std::fill_n(bottom_gradient.address(), bottom_gradient.size(), 0.0F);
    each_element([&](const Place& place, std::int64_t) {
      const std::int64_t at = place.in_top(spec_.top);
      const auto pixel = std::bit_cast<std::int32_t>(chosen_[static_cast<std::size_t>(at)]);
      float* plane = bottom_gradient.address() + place.plane_of_bottom(spec_.bottom);
      plane[pixel * spec_.bottom.c] += top_gradient.address()[at];
    });
  }

 private:
  /// An element of the top.
  struct Place {
    std::int64_t n, c, y, x;
    [[nodiscard]] std::int64_t in_top(const ImageShape& top) const {
      return ((n * top.h + y) * top.w + x) * top.c + c;
    }
    [[nodiscard]] std::int64_t plane_of_bottom(const ImageShape& bottom) const {
      return n * bottom.h * bottom.w * bottom.c + c;
    }
  };

  /// Goes in Caffe's order, by planes, so that no two threads write the same plane.
  template <class Work>
  void each_element(const Work& work) const {
    const std::int64_t area = spec_.top.h * spec_.top.w;
    parallel_ranges(static_cast<std::size_t>(spec_.top.n * spec_.top.c), 1,
                    [&](std::size_t begin, std::size_t end) {
                      for (auto plane = static_cast<std::int64_t>(begin);
                           plane < static_cast<std::int64_t>(end); ++plane) {
                        for (std::int64_t i = 0; i < area; ++i) {
                          work(Place{plane / spec_.top.c, plane % spec_.top.c, i / spec_.top.w,
                                     i % spec_.top.w},
                               plane * area + i);
                        }
                      }
                    });
  }

  template <class Work>
  void each_pixel(const Place& place, const Work& work) const {
    const Window& window = spec_.window;
    const Reach h = reach_of(place.y, spec_.bottom.h, window.kernel_h, window.stride_h, 0);
    const Reach w = reach_of(place.x, spec_.bottom.w, window.kernel_w, window.stride_w, 0);
    for (std::int64_t y = h.begin; y < h.end; ++y) {
      for (std::int64_t x = w.begin; x < w.end; ++x) work(y * spec_.bottom.w + x);
    }
  }

  /// A random number in (0, 1].
  [[nodiscard]] float unit(Clock clock, std::int64_t index) const {
    const std::uint64_t key = spec_.seed ^ math::name_stream("stochastic pooling", 18);
    const std::uint64_t draws = std::uint64_t{spec_.slot} << 32U | spec_.layer;
    const std::uint64_t first = static_cast<std::uint64_t>(clock.value()) << 32U;
    const auto at = static_cast<std::uint64_t>(index);
    return 1 - math::unit_float(math::Philox::at(key, draws, first | at / 4).words[at % 4]);
  }

  [[nodiscard]] std::int64_t draw(const float* plane, const Place& place, float share) const {
    float sum = 0;
    each_pixel(place, [&](std::int64_t pixel) { sum += plane[pixel * spec_.bottom.c]; });
    const float until = share * sum;
    std::int64_t chosen = -1;
    std::int64_t last = 0;
    sum = 0;
    each_pixel(place, [&](std::int64_t pixel) {
      sum += plane[pixel * spec_.bottom.c];
      if (chosen < 0 && sum >= until) chosen = pixel;
      last = pixel;
    });
    return chosen < 0 ? last : chosen;  // a NaN sum
  }

  [[nodiscard]] float weighed_mean(const float* plane, const Place& place) const {
    float sum = std::numeric_limits<float>::min();  // no division by 0
    float squares = 0;
    each_pixel(place, [&](std::int64_t pixel) {
      const float value = plane[pixel * spec_.bottom.c];
      sum += value;
      squares += value * value;
    });
    return squares / sum;
  }

  StochasticPoolingSpec spec_;
  OwnMemory chosen_;  // 32-bit integers, in the order of the top
};

}  // namespace

std::unique_ptr<StochasticPoolingOp> make_op(const StochasticPoolingSpec& spec) {
  return std::make_unique<StochasticPooling>(spec);
}

std::unique_ptr<PoolingOp> make_op(const PoolingSpec& spec) {
  if (spec.method == PoolingMethod::kMax) return dnnl_cpu::make_max_pooling(spec);
  return std::make_unique<AveragePooling>(spec);
}

}  // namespace taut::cpu
