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
  LayerBench bench(golden.definition, {golden.shape});
  bench.bottoms[0] = golden.bottom;
  REQUIRE(bench.parameters.size() == golden.parameters.size());
  bench.parameters = golden.parameters;
  bench.top_gradients[0] = golden.top_gradient;
  bench.forward();
  bench.backward();
  check_close("top", bench.tops[0], golden.top);
  if (!golden.bottom_gradient.empty()) {
    check_close("bottom's gradient", bench.bottom_gradients[0], golden.bottom_gradient);
  }
  for (std::size_t i = 0; i < golden.parameters.size(); ++i) {
    INFO("parameter " << i);
    check_close("gradient", bench.parameter_gradients[i], golden.parameter_gradients[i]);
  }
}
