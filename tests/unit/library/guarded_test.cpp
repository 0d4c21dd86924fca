#include "worker/library/guarded.hpp"

#include <limits>

#include "tests/support/catch.hpp"

using namespace taut::library;

TEST_CASE("a wait is a number of seconds that a clock can count", "[library]") {
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  CHECK(to_wait(0).value() == taut::Duration(0));
  CHECK(to_wait(1.5).value() == taut::Duration(1'500'000));
  CHECK(to_wait(1e9).has_value());
  for (const double wait_s : {std::numeric_limits<double>::quiet_NaN(), kInfinity, -kInfinity,
                              -0.001, 1.1e9, std::numeric_limits<double>::max()}) {
    const auto refused = to_wait(wait_s);
    REQUIRE_FALSE(refused.has_value());
    CHECK(refused.error().code == taut::ErrorCode::kInvalid);
    CHECK(refused.error().message.starts_with("a wait of "));
    CHECK(refused.error().message.ends_with(" s is invalid; give 0 to 1000000000 seconds"));
  }
}

TEST_CASE("a patience that is no wait is none", "[library]") {
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  CHECK(patience() == taut::Duration::max());
  tautline_set_patience(0.25);
  CHECK(patience() == taut::Duration(250'000));
  for (const double wait_s : {std::numeric_limits<double>::quiet_NaN(), -kInfinity, -1.0, 0.0}) {
    tautline_set_patience(wait_s);
    CHECK(patience() == taut::Duration::max());
  }
  tautline_set_patience(kInfinity);
  CHECK(patience() == taut::Duration(1'000'000'000'000'000));
  tautline_set_patience(0);
}
