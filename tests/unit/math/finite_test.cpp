#include "common/math/finite.hpp"

#include <limits>
#include <utility>
#include <vector>

#include "tests/support/catch.hpp"

namespace taut {

TEST_CASE("values are finite where none is infinite or no number", "[math]") {
  std::vector<float> values(10'000, 1e38F);
  CHECK(math::all_finite(values));
  CHECK(math::all_finite(std::span<const float>()));
  for (const float odd :
       {std::numeric_limits<float>::infinity(), -std::numeric_limits<float>::infinity(),
        std::numeric_limits<float>::quiet_NaN()}) {
    for (const std::size_t at : {std::size_t{0}, std::size_t{4096}, std::size_t{9999}}) {
      const float before = std::exchange(values[at], odd);
      CHECK_FALSE(math::all_finite(values));
      values[at] = before;
    }
  }
  values[5] = std::numeric_limits<float>::denorm_min();
  CHECK(math::all_finite(values));
}

}  // namespace taut
