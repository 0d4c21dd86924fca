#include "common/math/averaging.hpp"

#include <vector>

#include "tests/support/catch.hpp"

using namespace taut::math;

TEST_CASE("the shared value becomes the mean of the workers' values", "[averaging]") {
  const std::vector<float> shared = {1, -2};
  const std::vector<std::vector<float>> locals = {{2, 0}, {4, -3}, {-3, 9}};
  std::vector<float> after = shared;
  for (const auto& local : locals) {
    std::vector<float> update(2);
    periodic_update(local, shared, update);
    // The shard descends by it, divided by the workers.
    for (std::size_t i = 0; i < 2; ++i) after[i] -= update[i] / 3;
  }
  CHECK(after[0] == Approx((2 + 4 - 3) / 3.0));
  CHECK(after[1] == Approx((0 - 3 + 9) / 3.0));
}

TEST_CASE("a worker and the shared value move towards each other by the same step", "[averaging]") {
  std::vector<float> local = {5, -1};
  const std::vector<float> shared = {1, 1};
  std::vector<float> update(2);
  elastic_update(0.25F, local, shared, update);
  // x - 0.25 (x - s), and s + 0.25 (x - s) after the shard's descent.
  CHECK(local[0] == Approx(5 - 0.25 * (5 - 1)));
  CHECK(local[1] == Approx(-1 - 0.25 * (-1 - 1)));
  CHECK(shared[0] - update[0] == Approx(1 + 0.25 * (5 - 1)));
  CHECK(shared[1] - update[1] == Approx(1 + 0.25 * (-1 - 1)));
}
