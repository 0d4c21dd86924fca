#include "tests/twin/libraries/cudnn/convolution_math.hpp"

#include <fmt/format.h>

#include <vector>

namespace taut::twin::dnn {
namespace {

std::size_t size(int value) {
  return static_cast<std::size_t>(value);
}

/// One group of one image as a matrix [channels * kernel_h * kernel_w, top_h * top_w], zeros where
/// the kernel is outside: visit(row, column, offset within the group's channels).
template <class Visit>
void visit_places(const ConvolutionShape& shape, const Visit& visit) {
  const int channels = shape.c / shape.groups;
  std::size_t row = 0;
  for (int c = 0; c < channels; ++c) {
    for (int kh = 0; kh < shape.kernel_h; ++kh) {
      for (int kw = 0; kw < shape.kernel_w; ++kw, ++row) {
        for (int i = 0; i < shape.top_h; ++i) {
          const int y = i * shape.stride_h - shape.pad_h + kh * shape.dilation_h;
          if (y < 0 || y >= shape.h) continue;
          for (int j = 0; j < shape.top_w; ++j) {
            const int x = j * shape.stride_w - shape.pad_w + kw * shape.dilation_w;
            if (x < 0 || x >= shape.w) continue;
            visit(row, size(i) * size(shape.top_w) + size(j),
                  (size(c) * size(shape.h) + size(y)) * size(shape.w) + size(x));
          }
        }
      }
    }
  }
}

/// The sides of the matrices that one group of one image is made of.
struct Sides {
  explicit Sides(const ConvolutionShape& shape)
      : rows(size(shape.top_c / shape.groups)),
        inner(size(shape.c / shape.groups) * size(shape.kernel_h) * size(shape.kernel_w)),
        places(size(shape.top_h) * size(shape.top_w)),
        bottom(size(shape.c / shape.groups) * size(shape.h) * size(shape.w)) {}
  std::size_t rows;    // top channels
  std::size_t inner;   // of a kernel
  std::size_t places;  // of the top
  std::size_t bottom;  // elements of the bottom
};

void finish(Format stored, Scaling scaling, const std::vector<float>& sums, void* out) {
  for (std::size_t i = 0; i < sums.size(); ++i) {
    float value = scaling.alpha * sums[i];
    if (scaling.beta != 0) value += scaling.beta * load(stored, out, i);
    store(stored, out, i, value);
  }
}

}  // namespace

std::size_t ConvolutionShape::bottom_count() const {
  return size(n) * size(c) * size(h) * size(w);
}
std::size_t ConvolutionShape::top_count() const {
  return size(n) * size(top_c) * size(top_h) * size(top_w);
}
std::size_t ConvolutionShape::weight_count() const {
  return size(top_c) * size(c / groups) * size(kernel_h) * size(kernel_w);
}
std::string ConvolutionShape::to_string() const {
  return fmt::format("{}x{}x{}x{} under {} kernels {}x{}", n, c, h, w, top_c, kernel_h, kernel_w);
}

void convolve(const ConvolutionShape& shape, Precision precision, Scaling scaling,
              const void* bottom, const void* weights, void* top) {
  const Sides sides(shape);
  const auto x = load_factors(precision.stored, precision.factor, bottom, shape.bottom_count());
  const auto w = load_factors(precision.stored, precision.factor, weights, shape.weight_count());
  std::vector<float> sums(shape.top_count());
  std::vector<float> gathered(sides.inner * sides.places);
  for (int image = 0; image < shape.n; ++image) {
    for (int group = 0; group < shape.groups; ++group) {
      const std::size_t part = size(image) * size(shape.groups) + size(group);
      const float* const from = x.data() + part * sides.bottom;
      visit_places(shape, [&](std::size_t row, std::size_t column, std::size_t place) {
        gathered[row * sides.places + column] = from[place];
      });
      multiply(sides.rows, sides.places, sides.inner,
               w.data() + size(group) * sides.rows * sides.inner, gathered.data(),
               sums.data() + part * sides.rows * sides.places);
    }
  }
  finish(precision.stored, scaling, sums, top);
}

void convolve_to_bottom(const ConvolutionShape& shape, Precision precision, Scaling scaling,
                        const void* top_gradient, const void* weights, void* bottom_gradient) {
  const Sides sides(shape);
  const auto dy = load_factors(precision.stored, precision.factor, top_gradient, shape.top_count());
  const auto w = load_factors(precision.stored, precision.factor, weights, shape.weight_count());
  std::vector<float> sums(shape.bottom_count(), 0.0F);
  std::vector<float> scattered(sides.inner * sides.places);
  for (int group = 0; group < shape.groups; ++group) {
    const auto turned =
        transpose(w.data() + size(group) * sides.rows * sides.inner, sides.rows, sides.inner);
    for (int image = 0; image < shape.n; ++image) {
      const std::size_t part = size(image) * size(shape.groups) + size(group);
      multiply(sides.inner, sides.places, sides.rows, turned.data(),
               dy.data() + part * sides.rows * sides.places, scattered.data());
      float* const into = sums.data() + part * sides.bottom;
      visit_places(shape, [&](std::size_t row, std::size_t column, std::size_t place) {
        into[place] += scattered[row * sides.places + column];
      });
    }
  }
  finish(precision.stored, scaling, sums, bottom_gradient);
}

void convolve_to_weights(const ConvolutionShape& shape, Precision precision, Scaling scaling,
                         const void* bottom, const void* top_gradient, void* weight_gradient,
                         int first_image) {
  const Sides sides(shape);
  const auto x = load_factors(precision.stored, precision.factor, bottom, shape.bottom_count());
  const auto dy = load_factors(precision.stored, precision.factor, top_gradient, shape.top_count());
  std::vector<float> sums(shape.weight_count(), 0.0F);
  std::vector<float> gathered(sides.places * sides.inner);
  for (int turn = 0; turn < shape.n; ++turn) {
    const int image = (first_image + turn) % shape.n;
    for (int group = 0; group < shape.groups; ++group) {
      const std::size_t part = size(image) * size(shape.groups) + size(group);
      const float* const from = x.data() + part * sides.bottom;
      visit_places(shape, [&](std::size_t row, std::size_t column, std::size_t place) {
        gathered[column * sides.inner + row] = from[place];
      });
      multiply(sides.rows, sides.inner, sides.places, dy.data() + part * sides.rows * sides.places,
               gathered.data(), sums.data() + size(group) * sides.rows * sides.inner, true);
    }
  }
  finish(precision.stored, scaling, sums, weight_gradient);
}

}  // namespace taut::twin::dnn
