// What a stochastic pooling draws, and where its gradient goes.
#include <algorithm>
#include <cmath>

#include "tests/support/catch.hpp"
#include "tests/unit/layers/layer_bench.hpp"

using namespace taut;
using namespace taut::test;

namespace {

const std::string kPooling =
    "type: 'Pooling' pooling_param { pool: STOCHASTIC kernel_size: 2 stride: 2 }";

/// Distinct numbers above 0, in the order of their places.
Values distinct(std::size_t count) {
  Values values(count);
  for (std::size_t i = 0; i < count; ++i) values[i] = 0.1F + static_cast<float>(i * 37 % count);
  return values;
}

}  // namespace

TEST_CASE("a stochastic pooling passes each gradient to the element that it drew", "[pooling]") {
  LayerBench bench(kPooling, {{2, 3, 4, 6}});
  bench.bottoms[0] = distinct(bench.bottoms[0].size());
  bench.forward(Clock(3));
  bench.backward();
  Values expected(bench.bottoms[0].size(), 0.0F);
  for (std::size_t top = 0; top < bench.tops[0].size(); ++top) {
    const auto found = std::ranges::find(bench.bottoms[0], bench.tops[0][top]);
    REQUIRE(found != bench.bottoms[0].end());
    const auto at = static_cast<std::size_t>(found - bench.bottoms[0].begin());
    // Within its own window.
    const std::size_t plane = top / 6;
    CHECK(at / 24 == plane);
    CHECK(at % 24 / 6 / 2 == top % 6 / 3);
    CHECK(at % 6 / 2 == top % 3);
    expected[at] = bench.top_gradients[0][top];
  }
  CHECK(bench.bottom_gradients[0] == expected);
}

TEST_CASE("a stochastic pooling draws in proportion, the same again at the same clock",
          "[pooling]") {
  LayerBench bench(kPooling, {{1, 1, 2, 2}});
  bench.bottoms[0] = {1, 0, 3, 4};
  constexpr int kClocks = 4000;
  int threes = 0;
  for (int clock = 0; clock < kClocks; ++clock) {
    bench.forward(Clock(clock));
    CHECK(bench.tops[0][0] != 0);
    threes += bench.tops[0][0] == 3 ? 1 : 0;
  }
  // 3 / 8 of the draws, within five standard deviations.
  const double expected = kClocks * 3.0 / 8;
  CHECK(std::abs(threes - expected) < 5 * std::sqrt(expected * 5 / 8));
  bench.forward(Clock(7));
  const Values first = bench.tops[0];
  bench.forward(Clock(7));
  CHECK(bench.tops[0] == first);
  bench.bottoms[0] = {0, 0, 0, 0};
  bench.forward();
  CHECK(bench.tops[0][0] == 0);
}

TEST_CASE("a stochastic pooling with padding is refused", "[pooling]") {
  CHECK_THROWS_WITH(
      settle("layer { name: 'd' type: 'Input' top: 'd' input_param { shape { dim: 1 dim: 1 dim: 4 "
             "dim: 4 } } } layer { name: 'p' bottom: 'd' top: 'p' type: 'Pooling' pooling_param { "
             "pool: STOCHASTIC kernel_size: 2 pad: 1 } }",
             pb::TRAIN),
      Catch::Matchers::Contains("STOCHASTIC has no padding"));
}
