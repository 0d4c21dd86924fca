// Every layer of images, channels, elements, shapes, losses and sums compared with PyTorch.
#include <cmath>

#include "tests/support/catch.hpp"
#include "tests/unit/layers/golden_layers.hpp"

using namespace taut;
using namespace taut::test;

namespace {

void check_close(const char* what, const Values& ours, const Values& golden) {
  INFO(what);
  REQUIRE(ours.size() == golden.size());
  for (std::size_t i = 0; i < ours.size(); ++i) {
    INFO("element " << i);
    CHECK(ours[i] == Approx(golden[i]).epsilon(2e-5).margin(4e-6));
  }
}

}  // namespace

TEST_CASE("layers give PyTorch's values and gradients", "[layers][golden]") {
  for (const GoldenLayer& golden : kGoldenLayers) {
    INFO(golden.definition);
    // What is drawn is not PyTorch's: such layers are compared where nothing is drawn.
    const bool is_tested = golden.definition.find("Dropout") != std::string::npos ||
                           golden.definition.find("STOCHASTIC") != std::string::npos;
    LayerBench bench(
        golden.definition, golden.shapes,
        {.phase = is_tested ? pb::TEST : pb::TRAIN, .tops = static_cast<int>(golden.tops.size())});
    bench.bottoms = golden.bottoms;
    if (!golden.parameters.empty()) bench.parameters = golden.parameters;
    const bool is_loss = golden.definition.find("Loss") != std::string::npos;
    if (!is_loss) bench.top_gradients = golden.top_gradients;
    bench.forward();
    for (std::size_t i = 0; i < golden.tops.size(); ++i) {
      check_close("top", bench.tops[i], golden.tops[i]);
    }
    if (golden.bottom_gradients.empty()) continue;
    bench.backward();
    for (std::size_t i = 0; i < golden.bottom_gradients.size(); ++i) {
      check_close("bottom's gradient", bench.bottom_gradients[i], golden.bottom_gradients[i]);
    }
    for (std::size_t i = 0; i < golden.parameters.size(); ++i) {
      check_close("parameter's gradient", bench.parameter_gradients[i],
                  golden.parameter_gradients[i]);
    }
  }
}

TEST_CASE("a batch normalization's statistics move as Caffe's do", "[layers]") {
  LayerBench bench("type: 'BatchNorm' batch_norm_param { moving_average_fraction: 0.9 }",
                   {{3, 2, 2, 1}});
  bench.bottoms[0] = {1, 2, -1, 0, 3, 4, 5, 5, 5, 6, 2, 2};
  bench.parameters = {{10, 20}, {30, 40}, {2}};
  bench.forward();
  bench.backward();
  // Channel 0: 1 2 3 4 5 6; channel 1: -1 0 5 5 2 2. Variances are divided by 5.
  const auto close = [](const Values& ours, const Values& expected) {
    REQUIRE(ours.size() == expected.size());
    for (std::size_t i = 0; i < ours.size(); ++i) CHECK(ours[i] == Approx(expected[i]));
  };
  close(bench.parameter_gradients[0], {0.9F * 10 + 3.5F, 0.9F * 20 + 13.0F / 6});
  close(bench.parameter_gradients[1], {0.9F * 30 + 3.5F, 0.9F * 40 + (59 - 169.0F / 6) / 5});
  close(bench.parameter_gradients[2], {0.9F * 2 + 1});
}

TEST_CASE("a tested batch normalization divides its sums by their weight", "[layers]") {
  LayerBench bench("type: 'BatchNorm' batch_norm_param { eps: 0.25 }", {{1, 2, 1, 1}},
                   {.phase = pb::TEST});
  bench.bottoms[0] = {3, 5};
  bench.parameters = {{2, 4}, {8, 8}, {2}};
  bench.forward();
  CHECK(bench.tops[0][0] == Approx(2 / std::sqrt(4.25)));
  CHECK(bench.tops[0][1] == Approx(3 / std::sqrt(4.25)));
  bench.parameters[2] = {0};
  bench.forward();
  CHECK(bench.tops[0][0] == Approx(3 / std::sqrt(0.25)));
}
