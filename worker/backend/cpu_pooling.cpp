#include <algorithm>
#include <cstddef>

#include "worker/backend/cpu_ops.hpp"
#include "worker/backend/cpu_parallel.hpp"

namespace taut::cpu {
namespace {

/// One position of a window along one side.
struct Reach {
  std::int64_t begin = 0;  // within the image
  std::int64_t end = 0;
  std::int64_t padded = 0;  // what the divisor counts: within the padded image
};

Reach reach_of(std::int64_t position, std::int64_t size, std::int64_t kernel, std::int64_t stride,
               std::int64_t pad) {
  const std::int64_t begin = position * stride - pad;
  const std::int64_t end = std::min(begin + kernel, size + pad);
  return {std::max<std::int64_t>(begin, 0), std::min(end, size), end - begin};
}

/// oneDNN's averages divide by the whole kernel, or by what lies inside the image; Caffe's by
/// neither where the last window reaches over the padding. So this one is ours.
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

  /// In the order in which the top's pixels lie.
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

}  // namespace

std::unique_ptr<PoolingOp> make_average_pooling(const PoolingSpec& spec) {
  return std::make_unique<AveragePooling>(spec);
}

}  // namespace taut::cpu
