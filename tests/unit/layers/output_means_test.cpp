#include "worker/layers/output_means.hpp"

#include <cmath>

#include "tests/support/catch.hpp"

using namespace taut;

TEST_CASE("a test's mean counts for a class only the labels that it has in each batch", "[net]") {
  OutputMeans test;
  CHECK(test.means().empty());
  test.add({{"loss", 2.0}, {"a[0]", 1.0, 3}, {"a[1]", 0.0, 0}, {"a[2]", 0.0, 0}});
  test.add({{"loss", 1.0}, {"a[0]", 0.0, 1}, {"a[1]", 0.5, 2}, {"a[2]", 0.0, 0}});
  const auto means = test.means();
  REQUIRE(means.size() == 4);
  CHECK(means[0].name == "loss");
  CHECK(means[0].value == 1.5);
  CHECK(means[1].value == 0.75);
  // Nothing of the batch that has no label of it.
  CHECK(means[2].value == 0.5);
  CHECK(means[2].is_known);
  CHECK_FALSE(means[3].is_known);
  CHECK(std::isnan(means[3].value));
}
