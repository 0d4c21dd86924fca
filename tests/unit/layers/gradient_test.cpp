#include <string>

#include "tests/support/catch.hpp"
#include "tests/unit/layers/gradient_check.hpp"
#include "tests/unit/layers/layer_bench.hpp"

using namespace taut;
using namespace taut::test;

TEST_CASE("a convolution's gradients are those of central differences", "[layers][gradient]") {
  const auto [fields, bottom] = GENERATE(table<std::string, Extents>({
      {"num_output: 3 kernel_size: 3", {2, 2, 5, 5}},
      {"num_output: 20 kernel_size: 5", {2, 1, 7, 7}},
      {"num_output: 17 kernel_size: 3 pad: 1 stride: 2", {1, 5, 7, 6}},
      {"num_output: 4 kernel_h: 2 kernel_w: 3 pad_h: 1 pad_w: 0 stride_h: 1 stride_w: 2",
       {2, 3, 4, 8}},
      {"num_output: 4 kernel_size: 2 dilation: 2", {2, 3, 6, 5}},
      {"num_output: 6 kernel_size: 3 pad: 1 group: 2", {2, 4, 4, 5}},
      {"num_output: 6 kernel_size: 3 pad: 1 group: 3 stride: 2", {2, 9, 5, 5}},
      {"num_output: 4 kernel_size: 3 pad: 1 group: 4", {2, 4, 4, 4}},
      {"num_output: 7 kernel_size: 1 bias_term: false", {3, 5, 3, 2}},
      {"num_output: 3 kernel_size: 2 stride: 3", {1, 2, 7, 7}},
      {"num_output: 2 kernel_size: 4", {3, 2, 4, 4}},
  }));
  check_gradients("type: 'Convolution' convolution_param { " + fields + " }", bottom);
}

TEST_CASE("an inner product's gradients are those of central differences", "[layers][gradient]") {
  const auto [fields, bottom] = GENERATE(table<std::string, Extents>({
      {"num_output: 5", {3, 7}},
      {"num_output: 5", {3, 2, 3, 2}},
      {"num_output: 1 bias_term: false", {4, 6}},
      {"num_output: 17", {1, 3, 1, 1}},
      {"num_output: 4 axis: 2", {2, 3, 5}},
      {"num_output: 4 axis: 2", {2, 3, 2, 2}},
  }));
  check_gradients("type: 'InnerProduct' inner_product_param { " + fields + " }", bottom);
}

TEST_CASE("a pooling's gradients are those of central differences", "[layers][gradient]") {
  const auto [fields, bottom] = GENERATE(table<std::string, Extents>({
      {"kernel_size: 2 stride: 2", {2, 3, 4, 4}},
      {"kernel_size: 3 stride: 2", {2, 3, 6, 6}},  // the last windows reach over the edge
      {"kernel_size: 3 stride: 2 pad: 1", {1, 17, 6, 5}},
      {"kernel_h: 2 kernel_w: 3 stride_h: 1 stride_w: 2 pad_h: 1 pad_w: 1", {2, 2, 4, 6}},
      {"kernel_size: 3 stride: 1", {1, 2, 5, 5}},
      {"kernel_size: 2 stride: 3", {2, 2, 7, 7}},
      {"global_pooling: true", {2, 4, 3, 5}},
  }));
  const std::string method = GENERATE("MAX", "AVE");
  const std::string definition =
      "type: 'Pooling' pooling_param { pool: " + method + " " + fields + " }";
  INFO(definition);
  LayerBench bench(definition, {bottom});
  bench.bottoms[0] = spaced_values(bench.bottoms[0].size(), 3, 0.05F);
  check_gradients(bench);
}

TEST_CASE("an activation's gradient is that of central differences", "[layers][gradient]") {
  const std::string definition =
      GENERATE("type: 'ReLU'", "type: 'ReLU' relu_param { negative_slope: 0.25 }",
               "type: 'Sigmoid'", "type: 'TanH'");
  INFO(definition);
  LayerBench bench(definition, {{2, 3, 3, 2}});
  bench.bottoms[0] = spaced_values(bench.bottoms[0].size(), 3, 0.05F);
  check_gradients(bench);
}

TEST_CASE("a dropout's gradient is that of central differences", "[layers][gradient]") {
  const auto bottom = GENERATE(Extents{3, 7}, Extents{2, 3, 3, 2});
  check_gradients("type: 'Dropout' dropout_param { dropout_ratio: 0.4 }", bottom);
}

TEST_CASE("a softmax's gradient is that of central differences", "[layers][gradient]") {
  const auto [fields, bottom] = GENERATE(table<std::string, Extents>({
      {"axis: 1", {3, 5}},
      {"axis: 1", {2, 4, 3, 2}},
      {"axis: 3", {2, 3, 2, 4}},
      {"axis: -1", {2, 3, 4}},
      {"axis: 1", {2, 3, 4}},
  }));
  check_gradients("type: 'Softmax' softmax_param { " + fields + " }", bottom);
}

TEST_CASE("a softmax loss's gradient is that of central differences", "[layers][gradient]") {
  const Tolerance fine{.step = 2e-2, .relative = 1e-2, .absolute = 1e-4};
  SECTION("one label for each row") {
    LayerBench bench("type: 'SoftmaxWithLoss'", {{4, 5}, {4}});
    bench.bottoms[1] = {0, 4, 2, 2};
    check_gradients(bench, fine, true);
  }
  SECTION("one label for each pixel, some ignored") {
    LayerBench bench("type: 'SoftmaxWithLoss' loss_param { ignore_label: 255 }",
                     {{2, 3, 2, 2}, {2, 1, 2, 2}});
    bench.bottoms[1] = {0, 255, 2, 1, 255, 255, 1, 0};
    check_gradients(bench, fine, true);
  }
}

TEST_CASE("a loss's weight scales its gradient and not its value", "[layers]") {
  LayerBench plain("type: 'SoftmaxWithLoss'", {{2, 3}, {2}});
  LayerBench weighted("type: 'SoftmaxWithLoss' loss_weight: 4", {{2, 3}, {2}});
  for (LayerBench* bench : {&plain, &weighted}) {
    bench->bottoms[1] = {2, 0};
    bench->forward();
    bench->backward();
  }
  CHECK(plain.tops[0] == weighted.tops[0]);
  for (std::size_t i = 0; i < 6; ++i) {
    CHECK(weighted.bottom_gradients[0][i] == Approx(4 * plain.bottom_gradients[0][i]));
  }
}
