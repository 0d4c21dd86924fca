// Gradients against central differences: the layers of images, channels, elements, shapes, losses.
#include <algorithm>
#include <cmath>
#include <string>

#include "tests/support/catch.hpp"
#include "tests/unit/layers/gradient_check.hpp"
#include "tests/unit/layers/layer_cases.hpp"

using namespace taut;
using namespace taut::test;

namespace {

constexpr Tolerance kFine{.step = 2e-2, .relative = 1e-2, .absolute = 1e-4};

LayerBench spaced(const std::string& definition, const Extents& bottom) {
  LayerBench bench(definition, {bottom});
  bench.bottoms[0] = spaced_values(bench.bottoms[0].size(), 3, 0.05F);
  return bench;
}

}  // namespace

TEST_CASE("the gradients of the table of layers are those of central differences",
          "[layers][gradient]") {
  int compared = 0;
  for (const auto& family : {linear_cases(), channel_cases(), pooling_cases(), elementwise_cases(),
                             shape_cases(), loss_cases(), sequence_cases()}) {
    for (const LayerCase& test : family) {
      if (test.small.empty()) continue;
      INFO(test.definition);
      LayerBench bench(test.definition, test.small, {.tops = test.tops});
      for (std::size_t i = 0; i < bench.bottoms.size(); ++i) {
        bench.bottoms[i] = spaced_values(bench.bottoms[i].size(), 3 + i, 0.05F);
      }
      if (test.classes > 0) {
        Values& labels = bench.bottoms[bench.bottoms.size() - test.labels_from_end];
        for (std::size_t i = 0; i < labels.size(); ++i) {
          labels[i] = static_cast<float>(i % static_cast<std::size_t>(test.classes));
        }
      }
      check_gradients(bench, {}, test.is_loss);
      ++compared;
    }
  }
  CHECK(compared >= 10);
}

TEST_CASE("a convolution of signals has the gradients of central differences",
          "[layers][gradient]") {
  const auto [fields, bottom] = GENERATE(table<std::string, Extents>({
      {"num_output: 3 kernel_size: 3", {2, 2, 7}},
      {"num_output: 4 kernel_size: 3 pad: 2 stride: 2 dilation: 2 group: 2", {2, 4, 9}},
      {"num_output: 2 kernel_size: 1 bias_term: false", {3, 1, 4}},
  }));
  check_gradients("type: 'Convolution' convolution_param { " + fields + " }", bottom);
}

TEST_CASE("a deconvolution's gradients are those of central differences", "[layers][gradient]") {
  const auto [fields, bottom] = GENERATE(table<std::string, Extents>({
      {"num_output: 3 kernel_size: 3", {2, 2, 4, 3}},
      {"num_output: 4 kernel_size: 4 stride: 2 pad: 1 group: 2", {2, 4, 3, 3}},
      {"num_output: 2 kernel_h: 2 kernel_w: 3 stride_w: 2 bias_term: false", {1, 3, 3, 2}},
      {"num_output: 3 kernel_size: 3 dilation: 2", {1, 2, 3, 3}},
      {"num_output: 2 kernel_size: 3 stride: 2", {2, 3, 4}},
  }));
  check_gradients("type: 'Deconvolution' convolution_param { " + fields + " }", bottom);
}

TEST_CASE("an LRN's gradient is that of central differences", "[layers][gradient]") {
  const std::string fields =
      GENERATE("local_size: 5 alpha: 0.5 beta: 0.75", "local_size: 3 alpha: 2 beta: 0.6 k: 2",
               "local_size: 3 alpha: 0.8 beta: 0.75 norm_region: WITHIN_CHANNEL");
  const Extents bottom = GENERATE(Extents{2, 7, 3, 4}, Extents{2, 16, 4, 3}, Extents{1, 1, 4, 4});
  check_gradients("type: 'LRN' lrn_param { " + fields + " }", bottom);
}

TEST_CASE("a batch normalization's gradient is that of central differences", "[layers][gradient]") {
  const Extents bottom =
      GENERATE(Extents{3, 4, 3, 2}, Extents{6, 5}, Extents{2, 3, 5}, Extents{3, 2, 2, 2, 2});
  SECTION("with the batch's statistics") {
    LayerBench bench("type: 'BatchNorm'", {bottom});
    // Its parameters are statistics, which it writes and does not read here.
    bench.parameters.clear();
    check_gradients(bench, {.step = 1e-2, .relative = 1e-2, .absolute = 2e-3});
  }
  SECTION("with kept statistics") {
    LayerBench bench("type: 'BatchNorm' batch_norm_param { use_global_stats: true }", {bottom});
    for (float& variance : bench.parameters[1]) variance = std::abs(variance) + 0.5F;
    bench.parameters[2] = {2};
    bench.forward();
    bench.parameters.clear();  // they stay as they are, and have no gradient
    check_gradients(bench);
  }
}

TEST_CASE("the gradients of Scale and Bias are those of central differences",
          "[layers][gradient]") {
  const std::string definition = GENERATE(
      "type: 'Scale'", "type: 'Scale' scale_param { bias_term: true }",
      "type: 'Scale' scale_param { axis: 0 }",
      "type: 'Scale' scale_param { axis: 1 num_axes: -1 bias_term: true }",
      "type: 'Scale' scale_param { axis: -1 }", "type: 'Scale' scale_param { num_axes: 0 }",
      "type: 'Scale' scale_param { axis: 1 num_axes: 2 }", "type: 'Bias'",
      "type: 'Bias' bias_param { axis: 0 num_axes: -1 }");
  const Extents bottom = GENERATE(Extents{2, 5, 3, 2}, Extents{3, 4, 5}, Extents{40, 2, 3, 3});
  INFO(definition);
  LayerBench bench(definition, {bottom});
  bench.bottoms[0] = spaced_values(bench.bottoms[0].size(), 3, 0.01F);
  check_gradients(bench, {.step = 1e-3, .relative = 1e-2, .absolute = 5e-3});
}

TEST_CASE("a Scale and a Bias by another bottom have gradients for both", "[layers][gradient]") {
  const auto [definition, second] = GENERATE(table<std::string, Extents>({
      {"type: 'Scale' scale_param { axis: 0 }", {3, 4, 2, 2}},
      {"type: 'Scale' scale_param { axis: 0 bias_term: true }", {3, 4, 2, 2}},
      {"type: 'Scale' scale_param { axis: 0 }", {3, 4}},
      {"type: 'Scale' scale_param { axis: 1 bias_term: true }", {4}},
      {"type: 'Bias' bias_param { axis: 0 }", {3, 4}},
      {"type: 'Bias' bias_param { axis: 1 }", {4, 2, 2}},
  }));
  INFO(definition);
  LayerBench bench(definition, {{3, 4, 2, 2}, second});
  check_gradients(bench);
}

TEST_CASE("an elementwise function's gradient is that of central differences",
          "[layers][gradient]") {
  const std::string definition = GENERATE(
      "type: 'ELU'", "type: 'ELU' elu_param { alpha: 0.5 }", "type: 'BNLL'", "type: 'AbsVal'",
      "type: 'Exp'", "type: 'Exp' exp_param { base: 2 scale: 0.5 shift: 1 }",
      "type: 'Power' power_param { power: 2 scale: 0.5 shift: 1 }",
      "type: 'Power' power_param { scale: 3 shift: -1 }",
      "type: 'Power' power_param { power: 1.7 scale: 0.3 shift: 2 }",
      "type: 'Log' log_param { scale: 0.5 shift: 3 }",
      "type: 'Log' log_param { base: 10 shift: 3 }");
  INFO(definition);
  LayerBench bench = spaced(definition, {2, 3, 3, 2});
  check_gradients(bench);
}

TEST_CASE("an Eltwise has gradients for all of its bottoms", "[layers][gradient]") {
  const std::string fields = GENERATE("operation: SUM", "coeff: 2 coeff: -1 coeff: 0.5",
                                      "operation: PROD", "operation: MAX");
  INFO(fields);
  LayerBench bench("type: 'Eltwise' eltwise_param { " + fields + " }",
                   {{2, 3, 2, 2}, {2, 3, 2, 2}, {2, 3, 2, 2}});
  for (std::size_t i = 0; i < 3; ++i)
    bench.bottoms[i] = spaced_values(24, 7 + i, 0.031F * (1 + static_cast<float>(i)));
  for (float& value : bench.bottoms[1]) value += 0.005F;
  check_gradients(bench, {.step = 1e-3, .relative = 1e-2, .absolute = 2e-3});
}

TEST_CASE("Concat and Slice pass every part its gradient", "[layers][gradient]") {
  const int axis = GENERATE(0, 1, 2, 3);
  const std::string number = std::to_string(axis);
  Extents first{2, 3, 4, 5};
  Extents second = first;
  second[static_cast<std::size_t>(axis)] = 2;
  LayerBench concat("type: 'Concat' concat_param { axis: " + number + " }", {first, second});
  check_gradients(concat);
  LayerBench slice("type: 'Slice' slice_param { slice_point: 1 axis: " + number + " }", {first},
                   {.tops = 2});
  check_gradients(slice);
}

TEST_CASE("operations that move elements pass their gradients", "[layers][gradient]") {
  const std::string definition =
      GENERATE("type: 'Flatten'", "type: 'Flatten' flatten_param { axis: 2 }",
               "type: 'Reshape' reshape_param { shape { dim: 0 dim: 4 dim: -1 dim: 3 } }",
               "type: 'Reshape' reshape_param { shape { dim: 2 dim: 2 } axis: 1 num_axes: 1 }",
               "type: 'Reshape' reshape_param { shape { dim: -1 } }");
  check_gradients(definition, {2, 4, 3, 2});
  LayerBench split("type: 'Split'", {{2, 4, 3, 2}}, {.tops = 3});
  check_gradients(split);
}

TEST_CASE("a reduction's gradient is that of central differences", "[layers][gradient]") {
  const std::string operation = GENERATE("SUM", "ASUM", "SUMSQ", "MEAN");
  const int axis = GENERATE(0, 1, 2, 3);
  const std::string definition = "type: 'Reduction' reduction_param { operation: " + operation +
                                 " coeff: 1.5 axis: " + std::to_string(axis) + " }";
  INFO(definition);
  LayerBench bench = spaced(definition, {2, 3, 2, 4});
  check_gradients(bench);
}

TEST_CASE("a softmax loss is normalized as specified", "[layers][gradient]") {
  const std::string mode = GENERATE("normalization: FULL", "normalization: BATCH_SIZE",
                                    "normalization: NONE", "normalize: false", "normalize: true");
  INFO(mode);
  LayerBench bench("type: 'SoftmaxWithLoss' loss_param { ignore_label: 255 " + mode + " }",
                   {{2, 3, 2, 2}, {2, 1, 2, 2}});
  bench.bottoms[1] = {0, 255, 2, 1, 255, 255, 1, 0};
  check_gradients(bench, {.step = 2e-2, .relative = 1e-2, .absolute = 1e-3}, true);
}

TEST_CASE("a Euclidean loss has gradients for both bottoms", "[layers][gradient]") {
  const Extents shape = GENERATE(Extents{3, 4}, Extents{2, 3, 2, 2});
  LayerBench bench("type: 'EuclideanLoss'", {shape, shape});
  check_gradients(bench, kFine, true);
}

TEST_CASE("a sigmoid cross entropy's gradient is that of central differences",
          "[layers][gradient]") {
  const std::string fields = GENERATE("", "loss_param { ignore_label: 7 }",
                                      "loss_param { ignore_label: 7 normalization: VALID }",
                                      "loss_param { normalization: FULL }");
  INFO(fields);
  LayerBench bench("type: 'SigmoidCrossEntropyLoss' " + fields, {{2, 4}, {2, 4}});
  bench.bottoms[1] = {0, 1, 0.3F, 1, 0, 0.5F, 1, 0};
  if (fields.find('7') != std::string::npos) bench.bottoms[1][2] = 7;
  check_gradients(bench, kFine, true);
}

TEST_CASE("a hinge loss's gradient is that of central differences", "[layers][gradient]") {
  const std::string norm = GENERATE("L1", "L2");
  LayerBench bench("type: 'HingeLoss' hinge_loss_param { norm: " + norm + " }", {{3, 4}, {3}});
  bench.bottoms[0] = spaced_values(12, 5, 0.3F);
  bench.bottoms[1] = {0, 3, 1};
  check_gradients(bench, {.step = 1e-2, .relative = 1e-2, .absolute = 1e-3}, true);
}

TEST_CASE("a contrastive loss has gradients for both bottoms", "[layers][gradient]") {
  const std::string legacy = GENERATE("false", "true");
  LayerBench bench(
      "type: 'ContrastiveLoss' contrastive_loss_param { margin: 4 legacy_version: " + legacy + " }",
      {{4, 3}, {4, 3}, {4}});
  bench.bottoms[2] = {1, 0, 0, 1};
  check_gradients(bench, {.step = 1e-2, .relative = 1e-2, .absolute = 1e-3}, true);
}
