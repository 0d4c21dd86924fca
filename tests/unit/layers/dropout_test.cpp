#include <cstdint>

#include "common/math/philox.hpp"
#include "tests/support/catch.hpp"
#include "tests/unit/layers/layer_bench.hpp"

using namespace taut;
using namespace taut::test;

namespace {

constexpr const char* kDropout = "type: 'Dropout' dropout_param { dropout_ratio: 0.25 }";

Values dropped(const Extents& shape, const LayerBench::Setup& setup, std::int64_t clock) {
  LayerBench bench(kDropout, {shape}, setup);
  bench.bottoms[0].assign(bench.bottoms[0].size(), 1.0F);
  bench.forward(Clock(clock));
  return bench.tops[0];
}

}  // namespace

TEST_CASE("a dropout is a pure function of seed, clock, slot, layer and index", "[layers]") {
  const LayerBench::Setup setup{.seed = 7, .slot = 2, .index = 5};
  const Values mask = dropped({4, 100}, setup, 11);
  CHECK(mask == dropped({4, 100}, setup, 11));
  CHECK(mask == dropped({4, 100}, {.seed = 7, .slot = 2, .index = 5, .threads = 2}, 11));
  CHECK(mask != dropped({4, 100}, setup, 12));
  CHECK(mask != dropped({4, 100}, {.seed = 8, .slot = 2, .index = 5}, 11));
  CHECK(mask != dropped({4, 100}, {.seed = 7, .slot = 3, .index = 5}, 11));
  CHECK(mask != dropped({4, 100}, {.seed = 7, .slot = 2, .index = 6}, 11));
}

TEST_CASE("a dropout's index is that of Caffe's order, independent of the device's", "[layers]") {
  const LayerBench::Setup setup{.seed = 3};
  CHECK(dropped({2, 5, 3, 7}, setup, 4) == dropped({2, 105}, setup, 4));
}

TEST_CASE("a dropout drops its share and keeps the mean", "[layers]") {
  const Values mask = dropped({100, 1000}, {.seed = 1}, 0);
  std::size_t zeros = 0;
  for (const float value : mask) {
    REQUIRE((value == 0 || value == 1 / 0.75F));
    zeros += value == 0 ? 1 : 0;
  }
  // 100,000 draws of probability 1/4: five standard deviations are 685.
  CHECK(static_cast<double>(zeros) == Approx(25000).margin(685));
}

TEST_CASE("a clock's dropout is drawn for each forward, and kept for its backward", "[layers]") {
  LayerBench bench(kDropout, {{2, 50}});
  bench.bottoms[0].assign(100, 1.0F);
  bench.top_gradients[0].assign(100, 1.0F);
  bench.forward(Clock(3));
  const Values first = bench.tops[0];
  bench.forward(Clock(4));
  CHECK(bench.tops[0] != first);
  bench.backward();
  CHECK(bench.bottom_gradients[0] == bench.tops[0]);
  bench.forward(Clock(3));
  CHECK(bench.tops[0] == first);
}

TEST_CASE("outside of training nothing is dropped", "[layers]") {
  CHECK(dropped({4, 100}, {.phase = pb::TEST}, 0) == Values(400, 1.0F));
}
