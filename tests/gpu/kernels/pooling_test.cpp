#include "cuda/kernels/pooling.hpp"

#include <algorithm>
#include <cmath>

#include "tests/gpu/kernels/array.hpp"
#include "tests/support/catch.hpp"

using namespace taut;
using namespace taut::test;
using cuda::PoolShape;

namespace {

struct Window {
  std::int64_t begin;
  std::int64_t end;
  std::int64_t padded;
};

/// Caffe's window of top place `at`.
Window window_of(std::int64_t at, std::int64_t size, std::int64_t kernel, std::int64_t stride,
                 std::int64_t pad) {
  const std::int64_t begin = at * stride - pad;
  const std::int64_t end = std::min(begin + kernel, size + pad);
  return {std::max<std::int64_t>(begin, 0), std::min(end, size), end - begin};
}

/// Calls work(top place, bottom place, places of the padded window) for all that meet, in order.
template <class Work>
void each_pair(const PoolShape& s, const Work& work) {
  for (std::int64_t t = 0; t < s.planes * s.top_h * s.top_w; ++t) {
    const std::int64_t plane = t / (s.top_h * s.top_w);
    const Window rows = window_of(t / s.top_w % s.top_h, s.h, s.kernel_h, s.stride_h, s.pad_h);
    const Window columns = window_of(t % s.top_w, s.w, s.kernel_w, s.stride_w, s.pad_w);
    for (std::int64_t y = rows.begin; y < rows.end; ++y) {
      for (std::int64_t x = columns.begin; x < columns.end; ++x) {
        work(t, (plane * s.h + y) * s.w + x, rows.padded * columns.padded);
      }
    }
  }
}

// Overlapping, rectangular, with a stride beyond the kernel, padded, over the edge, one place.
const PoolShape kShapes[] = {
    {.planes = 3,
     .h = 9,
     .w = 7,
     .top_h = 4,
     .top_w = 3,
     .kernel_h = 3,
     .kernel_w = 3,
     .stride_h = 2,
     .stride_w = 2},
    {.planes = 2,
     .h = 8,
     .w = 12,
     .top_h = 7,
     .top_w = 3,
     .kernel_h = 2,
     .kernel_w = 5,
     .stride_h = 1,
     .stride_w = 4},
    {.planes = 2,
     .h = 11,
     .w = 10,
     .top_h = 3,
     .top_w = 4,
     .kernel_h = 2,
     .kernel_w = 1,
     .stride_h = 5,
     .stride_w = 3},
    {.planes = 2,
     .h = 6,
     .w = 6,
     .top_h = 4,
     .top_w = 4,
     .kernel_h = 3,
     .kernel_w = 3,
     .stride_h = 2,
     .stride_w = 2,
     .pad_h = 1,
     .pad_w = 1},
    {.planes = 40, .h = 5, .w = 5, .top_h = 1, .top_w = 1, .kernel_h = 5, .kernel_w = 5},
    // Large windows: of a whole plane, and over the edge.
    {.planes = 40, .h = 7, .w = 7, .top_h = 1, .top_w = 1, .kernel_h = 7, .kernel_w = 7},
    {.planes = 2,
     .h = 11,
     .w = 9,
     .top_h = 3,
     .top_w = 2,
     .kernel_h = 5,
     .kernel_w = 7,
     .stride_h = 4,
     .stride_w = 4,
     .pad_h = 1,
     .pad_w = 2},
};

}  // namespace

TEST_CASE("a maximum's gradient is passed to the first of equal values", "[kernels]") {
  for (const PoolShape& shape : kShapes) {
    on_each_schedule([&shape] {
      const TestStream stream;
      auto values = random_floats(shape.planes * shape.h * shape.w, 1);
      // Few different ones, so that equal ones meet.
      for (float& value : values) value = std::round(value * 2);
      const std::int64_t tops = shape.planes * shape.top_h * shape.top_w;
      const auto slopes = random_floats(tops, 2);
      const Array<float> bottom(values);
      const Array<float> top(tops);
      const Array<std::int32_t> chosen(tops);
      const Array<float> top_gradient(slopes);
      const Array<float> gradient(shape.planes * shape.h * shape.w);
      cuda::max_pool_forward(stream, shape, bottom.at(), top.at(), chosen.at());
      cuda::max_pool_backward(stream, shape, chosen.at(), top_gradient.at(), gradient.at());
      std::vector<std::int64_t> best(place(tops), -1);
      each_pair(shape, [&](std::int64_t t, std::int64_t b, std::int64_t) {
        std::int64_t& own = best[place(t)];
        if (own < 0 || values[place(b)] > values[place(own)]) own = b;
      });
      std::vector<double> expected(values.size());
      const auto got_top = top.values(stream);
      for (std::size_t t = 0; t < best.size(); ++t) {
        CHECK(got_top[t] == values[place(best[t])]);
        expected[place(best[t])] += slopes[t];
      }
      const auto got = gradient.values(stream);
      for (std::size_t i = 0; i < got.size(); ++i) CHECK(std::abs(got[i] - expected[i]) < 1e-5);
    });
  }
}

TEST_CASE("an average divides by the window within the padded image", "[kernels]") {
  for (const PoolShape& shape : kShapes) {
    on_each_schedule([&shape] {
      const TestStream stream;
      const auto values = random_floats(shape.planes * shape.h * shape.w, 1);
      const std::int64_t tops = shape.planes * shape.top_h * shape.top_w;
      const auto slopes = random_floats(tops, 2);
      const Array<float> bottom(values);
      const Array<float> top(tops);
      const Array<float> top_gradient(slopes);
      const Array<float> gradient(shape.planes * shape.h * shape.w);
      cuda::average_pool_forward(stream, shape, bottom.at(), top.at());
      cuda::average_pool_backward(stream, shape, top_gradient.at(), gradient.at());
      std::vector<double> expected_top(place(tops));
      std::vector<double> expected(values.size());
      each_pair(shape, [&](std::int64_t t, std::int64_t b, std::int64_t area) {
        expected_top[place(t)] += values[place(b)] / static_cast<double>(area);
        expected[place(b)] += slopes[place(t)] / static_cast<double>(area);
      });
      const auto got_top = top.values(stream);
      for (std::size_t t = 0; t < got_top.size(); ++t) {
        CHECK(std::abs(got_top[t] - expected_top[t]) < 1e-5);
      }
      const auto got = gradient.values(stream);
      for (std::size_t i = 0; i < got.size(); ++i) CHECK(std::abs(got[i] - expected[i]) < 1e-5);
    });
  }
}
