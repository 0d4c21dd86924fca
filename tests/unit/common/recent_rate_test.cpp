#include "common/recent_rate.hpp"

#include "tests/support/catch.hpp"

namespace taut {
namespace {

TimePoint at(double seconds) {
  return TimePoint(Duration(static_cast<std::int64_t>(1e6 * seconds)));
}

}  // namespace

TEST_CASE("a rate is over the last seconds, and over what there is at first", "[rate]") {
  RecentRate rate;
  CHECK(rate.take(at(10), 0) == 0);
  CHECK(rate.take(at(10.5), 50) == Approx(100));
  for (std::uint64_t i = 1; i <= 100; ++i) {
    rate.take(at(10.5 + 0.1 * static_cast<double>(i)), 50 + 20 * i);
  }
  CHECK(rate.take(at(20.5), 2050) == Approx(200).epsilon(0.01));
}

TEST_CASE("a total that does not change has a rate that falls to 0", "[rate]") {
  RecentRate rate;
  for (std::uint64_t i = 0; i <= 50; ++i) rate.take(at(0.1 * static_cast<double>(i)), 10 * i);
  const double moving = rate.take(at(5), 500);
  CHECK(moving == Approx(100).epsilon(0.01));
  double last = moving;
  for (int i = 1; i <= 30; ++i) {
    const double now = rate.take(at(5 + 0.1 * i), 500);
    CHECK(now <= last + 1e-9);
    last = now;
  }
  CHECK(rate.take(at(8.2), 500) == 0);
  CHECK(rate.take(at(60), 500) == 0);
}

}  // namespace taut
