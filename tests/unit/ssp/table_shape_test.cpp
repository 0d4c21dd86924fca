#include "common/ssp/table_shape.hpp"

#include <limits>
#include <vector>

#include "tests/support/catch.hpp"

namespace taut {
namespace {

std::string error_of(const std::vector<std::int64_t>& shape) {
  const auto count = count_of(shape);
  REQUIRE_FALSE(count.has_value());
  return count.error().message;
}

}  // namespace

TEST_CASE("a shape has the product of its extents as values, and one without any", "[table]") {
  CHECK(count_of(std::vector<std::int64_t>{2, 3, 4}).value() == 24);
  CHECK(count_of({}).value() == 1);
  CHECK(count_of(std::vector<std::int64_t>(32, 1)).value() == 1);
  CHECK(count_of(std::vector<std::int64_t>{1LL << 40}).value() == 1ULL << 40U);
}

TEST_CASE("a shape beyond a limit is refused, however large its product would be", "[table]") {
  constexpr std::int64_t kMax = std::numeric_limits<std::int64_t>::max();
  CHECK(error_of({2, 0}) == "has shape 2x0: extents must be at least 1");
  CHECK(error_of({-3}) == "has shape -3: extents must be at least 1");
  CHECK(error_of({(1LL << 40) + 1}) ==
        "has shape 1099511627777: more than the limit of 1099511627776 values");
  CHECK(error_of({kMax, kMax}).ends_with("more than the limit of 1099511627776 values"));
  CHECK(error_of({1LL << 32, 1LL << 32}).starts_with("has shape 4294967296x4294967296: more than"));
  CHECK(error_of(std::vector<std::int64_t>(33, 1)) == "has 33 dimensions; the limit is 32");
}

}  // namespace taut
