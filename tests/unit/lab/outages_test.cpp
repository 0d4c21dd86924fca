#include "lab/training/outages.hpp"

#include "tests/support/catch.hpp"

namespace taut::lab {

TEST_CASE("what happens six times an hour is waited for ten minutes on average", "[lab]") {
  constexpr int kWaits = 20'000;
  sim::Random random(7);
  double sum = 0;
  int long_ones = 0;
  for (int i = 0; i < kWaits; ++i) {
    const double wait = wait_s(random, 6);
    REQUIRE(wait >= 0);
    sum += wait;
    if (wait > 1200) ++long_ones;
  }
  CHECK(sum / kWaits == Approx(600).epsilon(0.03));
  // Of an exponential distribution, e^-2 are longer than twice the mean.
  CHECK(static_cast<double>(long_ones) / kWaits == Approx(0.1353).epsilon(0.06));
}

}  // namespace taut::lab
