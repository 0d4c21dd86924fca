#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <string>

#include "tests/support/catch.hpp"
#include "tests/unit/layers/layer_bench.hpp"

using namespace taut;
using namespace taut::test;

namespace {

/// Plain loops over images in Caffe's order: the definition, slow and obvious.
struct Images {
  std::int64_t n, c, h, w;
  explicit Images(const Extents& shape) : n(shape[0]), c(shape[1]), h(shape[2]), w(shape[3]) {}
  [[nodiscard]] bool inside(std::int64_t y, std::int64_t x) const {
    return y >= 0 && y < h && x >= 0 && x < w;
  }
  [[nodiscard]] std::size_t at(std::int64_t i, std::int64_t k, std::int64_t y,
                               std::int64_t x) const {
    return static_cast<std::size_t>(((i * c + k) * h + y) * w + x);
  }
  void each(
      const std::function<void(std::int64_t, std::int64_t, std::int64_t, std::int64_t)>& f) const {
    for (std::int64_t i = 0; i < n; ++i) {
      for (std::int64_t k = 0; k < c; ++k) {
        for (std::int64_t y = 0; y < h; ++y) {
          for (std::int64_t x = 0; x < w; ++x) f(i, k, y, x);
        }
      }
    }
  }
};

struct Side {
  std::int64_t kernel, stride, pad, dilation = 1;
};

Values reference_convolution(const LayerBench& bench, Side h, Side w, std::int64_t group) {
  const Images in(bench.bottom_shapes[0]);
  const Images out(bench.top_shapes[0]);
  const Images weights(bench.parameter_shapes[0]);
  Values result(bench.tops[0].size());
  out.each([&](std::int64_t i, std::int64_t k, std::int64_t y, std::int64_t x) {
    double sum = bench.parameters.size() > 1 ? bench.parameters[1][static_cast<std::size_t>(k)] : 0;
    const std::int64_t first = k / (out.c / group) * weights.c;
    for (std::int64_t c = 0; c < weights.c; ++c) {
      for (std::int64_t dy = 0; dy < h.kernel; ++dy) {
        for (std::int64_t dx = 0; dx < w.kernel; ++dx) {
          const std::int64_t from_y = y * h.stride - h.pad + dy * h.dilation;
          const std::int64_t from_x = x * w.stride - w.pad + dx * w.dilation;
          if (!in.inside(from_y, from_x)) continue;
          sum += double{bench.bottoms[0][in.at(i, first + c, from_y, from_x)]} *
                 bench.parameters[0][weights.at(k, c, dy, dx)];
        }
      }
    }
    result[out.at(i, k, y, x)] = static_cast<float>(sum);
  });
  return result;
}

Values reference_pooling(const LayerBench& bench, Side h, Side w, bool max) {
  const Images in(bench.bottom_shapes[0]);
  const Images out(bench.top_shapes[0]);
  Values result(bench.tops[0].size());
  out.each([&](std::int64_t i, std::int64_t k, std::int64_t y, std::int64_t x) {
    float largest = -std::numeric_limits<float>::infinity();
    double sum = 0;
    int divisor = 0;
    for (std::int64_t dy = 0; dy < h.kernel; ++dy) {
      for (std::int64_t dx = 0; dx < w.kernel; ++dx) {
        const std::int64_t from_y = y * h.stride - h.pad + dy;
        const std::int64_t from_x = x * w.stride - w.pad + dx;
        if (from_y < in.h + h.pad && from_x < in.w + w.pad) ++divisor;
        if (!in.inside(from_y, from_x)) continue;
        largest = std::max(largest, bench.bottoms[0][in.at(i, k, from_y, from_x)]);
        sum += bench.bottoms[0][in.at(i, k, from_y, from_x)];
      }
    }
    result[out.at(i, k, y, x)] = max ? largest : static_cast<float>(sum / divisor);
  });
  return result;
}

void check_close(const Values& got, const Values& expected, double margin = 1e-4) {
  REQUIRE(got.size() == expected.size());
  for (std::size_t i = 0; i < got.size(); ++i) {
    INFO("element " << i);
    REQUIRE(got[i] == Approx(expected[i]).margin(margin));
  }
}

}  // namespace

TEST_CASE("a convolution computes the sums of its definition", "[layers]") {
  struct Case {
    const char* fields;
    Extents bottom;
    Side h, w;
    std::int64_t group;
  };
  const Case tested = GENERATE(
      Case{"num_output: 20 kernel_size: 5", {3, 1, 12, 12}, {5, 1, 0}, {5, 1, 0}, 1},
      Case{"num_output: 50 kernel_size: 5", {2, 20, 12, 12}, {5, 1, 0}, {5, 1, 0}, 1},
      Case{"num_output: 32 kernel_size: 5 pad: 2", {2, 3, 9, 9}, {5, 1, 2}, {5, 1, 2}, 1},
      Case{"num_output: 7 kernel_size: 3 stride: 2 pad: 1", {1, 5, 8, 7}, {3, 2, 1}, {3, 2, 1}, 1},
      Case{"num_output: 4 kernel_h: 3 kernel_w: 1 stride_h: 2 stride_w: 1 pad_h: 0 pad_w: 1",
           {2, 3, 7, 4},
           {3, 2, 0},
           {1, 1, 1},
           1},
      Case{"num_output: 6 kernel_size: 3 dilation: 2 pad: 2",
           {2, 4, 7, 6},
           {3, 1, 2, 2},
           {3, 1, 2, 2},
           1},
      Case{"num_output: 8 kernel_size: 3 group: 2 bias_term: false",
           {2, 6, 5, 5},
           {3, 1, 0},
           {3, 1, 0},
           2},
      Case{"num_output: 16 kernel_size: 3 pad: 1 group: 16",
           {2, 16, 5, 5},
           {3, 1, 1},
           {3, 1, 1},
           16});
  INFO(tested.fields);
  LayerBench bench(std::string("type: 'Convolution' convolution_param { ") + tested.fields + " }",
                   {tested.bottom});
  bench.forward();
  check_close(bench.tops[0], reference_convolution(bench, tested.h, tested.w, tested.group));
}

TEST_CASE("a pooling takes the windows that Caffe takes", "[layers]") {
  struct Case {
    const char* fields;
    Extents bottom;
    Side h, w;
  };
  const Case tested =
      GENERATE(Case{"kernel_size: 2 stride: 2", {2, 20, 8, 8}, {2, 2, 0}, {2, 2, 0}},
               Case{"kernel_size: 3 stride: 2", {2, 5, 32, 32}, {3, 2, 0}, {3, 2, 0}},
               Case{"kernel_size: 3 stride: 2 pad: 1", {2, 17, 7, 6}, {3, 2, 1}, {3, 2, 1}},
               Case{"kernel_h: 3 kernel_w: 2 stride_h: 1 stride_w: 2 pad_h: 2 pad_w: 0",
                    {1, 2, 5, 5},
                    {3, 1, 2},
                    {2, 2, 0}},
               Case{"kernel_size: 1 stride: 3", {1, 2, 3, 7}, {1, 3, 0}, {1, 3, 0}});
  const bool max = GENERATE(true, false);
  const std::string method = max ? "MAX" : "AVE";
  INFO(method << " " << tested.fields);
  LayerBench bench("type: 'Pooling' pooling_param { pool: " + method + " " + tested.fields + " }",
                   {tested.bottom});
  bench.forward();
  check_close(bench.tops[0], reference_pooling(bench, tested.h, tested.w, max), 1e-6);
}

TEST_CASE("an average's last window divides by its part inside the padded image", "[layers]") {
  // 6 + 2 * 1 wide, windows of 3 by 2: the fourth starts at 5 and holds 2 columns, one of them
  // padding.
  LayerBench bench("type: 'Pooling' pooling_param { pool: AVE kernel_size: 3 stride: 2 pad: 1 }",
                   {{1, 1, 6, 6}});
  REQUIRE(bench.top_shapes[0] == Extents{1, 1, 4, 4});
  std::ranges::fill(bench.bottoms[0], 1.0F);
  bench.forward();
  CHECK(bench.tops[0][0] == Approx(4.0 / 9));   // 2x2 of 3x3
  CHECK(bench.tops[0][5] == Approx(1));         // 3x3 of 3x3
  CHECK(bench.tops[0][15] == Approx(1.0 / 4));  // 1x1 of 2x2
}

TEST_CASE("an inner product reads images in Caffe's order", "[layers]") {
  LayerBench bench("type: 'InnerProduct' inner_product_param { num_output: 3 }", {{2, 3, 2, 2}});
  bench.forward();
  Values expected(6);
  for (std::size_t row = 0; row < 2; ++row) {
    for (std::size_t out = 0; out < 3; ++out) {
      double sum = bench.parameters[1][out];
      for (std::size_t i = 0; i < 12; ++i) {
        sum += double{bench.bottoms[0][row * 12 + i]} * bench.parameters[0][out * 12 + i];
      }
      expected[row * 3 + out] = static_cast<float>(sum);
    }
  }
  check_close(bench.tops[0], expected);
}

TEST_CASE("activations have their textbook values", "[layers]") {
  const auto run = [](const std::string& definition) {
    LayerBench bench(definition, {{1, 4}});
    bench.bottoms[0] = {-2, -0.5F, 0.5F, 30};
    bench.forward();
    return bench.tops[0];
  };
  CHECK(run("type: 'ReLU'") == Values{0, 0, 0.5F, 30});
  CHECK(run("type: 'ReLU' relu_param { negative_slope: 0.5 }") == Values{-1, -0.25F, 0.5F, 30});
  check_close(run("type: 'Sigmoid'"), {0.1192029F, 0.3775407F, 0.6224593F, 1}, 1e-6);
  check_close(run("type: 'TanH'"), {-0.9640276F, -0.4621172F, 0.4621172F, 1}, 1e-6);
}

TEST_CASE("in place or not, an elementwise layer gives the same bits", "[layers]") {
  const std::string definition = GENERATE("type: 'ReLU' relu_param { negative_slope: 0.1 }",
                                          "type: 'TanH'", "type: 'Sigmoid'", "type: 'Dropout'");
  const pb::Phase phase = GENERATE(pb::TRAIN, pb::TEST);
  INFO(definition << " phase " << phase);
  LayerBench apart(definition, {{2, 3, 4, 5}}, {.phase = phase});
  LayerBench in_place(definition, {{2, 3, 4, 5}}, {.phase = phase, .in_place = true});
  for (LayerBench* bench : {&apart, &in_place}) {
    bench->forward();
    bench->backward();
  }
  CHECK(apart.tops == in_place.tops);
  // In place, the bottom's gradient is the top's memory, and is read back from there.
  CHECK(apart.bottom_gradients == in_place.bottom_gradients);
}

TEST_CASE("a softmax handles large scores", "[layers]") {
  LayerBench bench("type: 'Softmax'", {{2, 2}});
  bench.bottoms[0] = {1000, 1000, -1000, 0};
  bench.forward();
  check_close(bench.tops[0], {0.5F, 0.5F, 0, 1}, 1e-6);
}

TEST_CASE("the loss is the mean over the labels that count", "[layers]") {
  const Values scores{0, std::log(3.0F), 0, std::log(3.0F), 0, std::log(3.0F)};  // 1/4 and 3/4
  SECTION("all of them") {
    LayerBench bench("type: 'SoftmaxWithLoss'", {{3, 2}, {3}});
    bench.bottoms = {scores, {1, 1, 0}};
    bench.forward();
    CHECK(bench.tops[0][0] == Approx((-2 * std::log(0.75) - std::log(0.25)) / 3).epsilon(1e-6));
  }
  SECTION("without the ignored ones, which have no gradient") {
    LayerBench bench("type: 'SoftmaxWithLoss' loss_param { ignore_label: -1 }", {{3, 2}, {3}});
    bench.bottoms = {scores, {-1, 0, -1}};
    bench.forward();
    bench.backward();
    CHECK(bench.tops[0][0] == Approx(-std::log(0.25)).epsilon(1e-6));
    check_close(bench.bottom_gradients[0], {0, 0, -0.75F, 0.75F, 0, 0}, 1e-6);
  }
  SECTION("where all are ignored it is zero") {
    LayerBench bench("type: 'SoftmaxWithLoss' loss_param { ignore_label: 1 }", {{3, 2}, {3}});
    bench.bottoms = {scores, {1, 1, 1}};
    bench.forward();
    bench.backward();
    CHECK(bench.tops[0][0] == 0);
    CHECK(bench.bottom_gradients[0] == Values(6, 0));
  }
}

TEST_CASE("a label that is no class is refused with its value and place", "[layers]") {
  const std::string type = GENERATE("type: 'SoftmaxWithLoss'", "type: 'Accuracy'");
  const float label = GENERATE(3.0F, -1.0F, 1e30F, std::numeric_limits<float>::quiet_NaN());
  LayerBench bench(type, {{2, 3}, {2}});
  bench.bottoms[1] = {0, label};
  CHECK_THROWS_WITH(bench.forward(), Catch::Matchers::Contains("at position 1 of the batch") &&
                                         Catch::Matchers::Contains("classes 0 to 2"));
}

TEST_CASE("accuracy counts a label among the top k, ties against it", "[layers]") {
  const auto accuracy = [](int k, const Values& labels) {
    LayerBench bench("type: 'Accuracy' accuracy_param { top_k: " + std::to_string(k) + " }",
                     {{4, 3}, {4}});
    bench.bottoms = {{3, 2, 1, 3, 2, 1, 3, 2, 1, 1, 1, 1}, labels};
    bench.forward();
    return bench.tops[0][0];
  };
  CHECK(accuracy(1, {0, 1, 2, 0}) == Approx(0.25));
  CHECK(accuracy(2, {0, 1, 2, 0}) == Approx(0.5));
  CHECK(accuracy(3, {0, 1, 2, 0}) == Approx(1));
}

TEST_CASE("a score that is no number is never counted as right", "[layers]") {
  const float none = std::numeric_limits<float>::quiet_NaN();
  LayerBench bench("type: 'Accuracy'", {{2, 3}, {2}});
  bench.bottoms = {{none, none, none, 1, none, 2}, {0, 2}};
  bench.forward();
  CHECK(bench.tops[0][0] == 0);
}

TEST_CASE("accuracy over pixels takes the classes along axis 1", "[layers]") {
  LayerBench bench("type: 'Accuracy'", {{1, 2, 1, 3}, {1, 1, 1, 3}}, {.tops = 2});
  bench.bottoms = {{5, 0, 5, 0, 5, 0}, {0, 1, 1}};
  bench.forward();
  CHECK(bench.tops[0][0] == Approx(2.0 / 3));
  CHECK(bench.tops[1] == Values{1, 0.5F});
}

TEST_CASE("accuracy's second top has each class's own, and 0 for a class without labels",
          "[layers]") {
  // One of two is right in class 0, one of one in class 1, none of one in class 3.
  const Values scores{3, 2, 1, 0, 0, 3, 2, 1, 0, 3, 2, 1, 1, 2, 3, 0};
  LayerBench first("type: 'Accuracy'", {{4, 4}, {4}}, {.tops = 2});
  REQUIRE(first.top_shapes[1] == Extents{4});
  first.bottoms = {scores, {0, 0, 1, 3}};
  first.forward();
  CHECK(first.tops[0][0] == Approx(0.5));
  CHECK(first.tops[1] == Values{0.5F, 1, 0, 0});

  // Class 2 scores second at the second position and class 0 third at the last.
  LayerBench second("type: 'Accuracy' accuracy_param { top_k: 2 }", {{4, 4}, {4}}, {.tops = 2});
  second.bottoms = {scores, {1, 2, 1, 0}};
  second.forward();
  CHECK(second.tops[1] == Values{0, 1, 1, 0});

  // An ignored label counts for no class, whether it is one or not.
  const std::string ignored = GENERATE("0", "255");
  LayerBench third("type: 'Accuracy' accuracy_param { ignore_label: " + ignored + " }",
                   {{4, 4}, {4}}, {.tops = 2});
  const float label = std::stof(ignored);
  third.bottoms = {scores, {label, label, 1, 2}};
  third.forward();
  CHECK(third.tops[0][0] == 1);
  CHECK(third.tops[1] == Values{0, 1, 1, 0});
}
