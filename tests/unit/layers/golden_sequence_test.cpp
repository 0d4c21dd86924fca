#include "tests/unit/layers/golden_sequence.hpp"
#include "tests/support/catch.hpp"

using namespace taut;
using namespace taut::test;

namespace {

void check_close(const char* what, const Values& ours, const Values& golden) {
  INFO(what);
  REQUIRE(ours.size() == golden.size());
  for (std::size_t i = 0; i < ours.size(); ++i) {
    INFO("element " << i);
    CHECK(ours[i] == Approx(golden[i]).epsilon(1e-5).margin(2e-6));
  }
}

}  // namespace

TEST_CASE("layers over sequences give PyTorch's values and gradients", "[layers][sequence]") {
  const std::size_t index = GENERATE(range(std::size_t{0}, kGolden.size()));
  const Golden& golden = kGolden[index];
  INFO(golden.name);
  LayerBench bench(golden.definition, golden.shapes,
                   {.tops = static_cast<int>(golden.tops.size())});
  bench.bottoms = golden.bottoms;
  REQUIRE(bench.parameters.size() == golden.parameters.size());
  bench.parameters = golden.parameters;
  bench.top_gradients = golden.top_gradients;
  bench.forward();
  bench.backward();
  for (std::size_t i = 0; i < golden.tops.size(); ++i) {
    INFO("top " << i);
    check_close("values", bench.tops[i], golden.tops[i]);
  }
  for (std::size_t i = 0; i < golden.bottoms.size(); ++i) {
    INFO("bottom " << i);
    if (golden.bottom_gradients[i].empty()) {
      CHECK_FALSE(bench.differentiable[i]);
      continue;
    }
    check_close("gradient", bench.bottom_gradients[i], golden.bottom_gradients[i]);
  }
  for (std::size_t i = 0; i < golden.parameters.size(); ++i) {
    INFO("parameter " << i);
    check_close("gradient", bench.parameter_gradients[i], golden.parameter_gradients[i]);
  }
}
