#include "lab/training/records/time_bins.hpp"

#include <numeric>

#include "lab/random.hpp"
#include "tests/support/catch.hpp"

namespace taut::lab {
namespace {

TimePoint at(std::int64_t us) {
  return TimePoint(Duration(us));
}

double sum(std::span<const double> row) {
  return std::accumulate(row.begin(), row.end(), 0.0);
}

}  // namespace

TEST_CASE("an amount is spread over the bins that its span touches", "[lab]") {
  TimeBins bins(2, 0, 8, Duration(10));
  bins.add(0, at(5), at(25), 40);
  CHECK(bins.sums(0)[0] == Approx(10));
  CHECK(bins.sums(0)[1] == Approx(20));
  CHECK(bins.sums(0)[2] == Approx(10));
  bins.add(0, at(12), at(12), 7);
  CHECK(bins.sums(0)[1] == Approx(27));
  CHECK(bins.sums(1).empty());
}

TEST_CASE("neighbours become one where time grows beyond the bins, and amounts stay", "[lab]") {
  TimeBins bins(1, 1, 4, Duration(10));
  for (int i = 0; i < 4; ++i) bins.add(0, at(10 * i), at(10 * i), i + 1);
  CHECK(bins.width() == Duration(10));
  bins.add(0, at(95), at(95), 5);
  CHECK(bins.width() == Duration(40));
  CHECK(std::vector(bins.sums(0).begin(), bins.sums(0).end()) == std::vector<double>{10, 0, 5, 0});
  CHECK(bins.count(at(0)) == 0);
  CHECK(bins.count(at(40)) == 1);
  CHECK(bins.count(at(96)) == 3);
  // The end is later than all that happened.
  bins.cover(at(400));
  CHECK(bins.width() == Duration(160));
  CHECK(bins.count(at(400)) == 3);
  CHECK(bins.sums(0)[0] == Approx(15));
}

TEST_CASE("a bin keeps the value that a row has at its end", "[lab]") {
  TimeBins bins(0, 2, 4, Duration(10));
  bins.set(0, at(11), 3);
  bins.set(0, at(19), 4);
  bins.set(0, at(31), 6);
  using Values = std::vector<std::int32_t>;
  CHECK(bins.values(0, 4) == Values{-1, 4, 4, 6});
  CHECK(bins.values(1, 2) == Values{-1, -1});
  bins.set(0, at(45), TimeBins::kNone);
  CHECK(bins.width() == Duration(20));
  CHECK(bins.values(0, 4) == Values{4, 6, -1, -1});
  bins.set(0, at(61), 5);
  CHECK(bins.values(0, 4) == Values{4, 6, -1, 5});
}

TEST_CASE("no amount is lost whatever time it is, and memory does not grow", "[lab]") {
  sim::Random random(3);
  TimeBins bins(3, 1, 64, Duration(1));
  double whole = 0;
  std::int64_t now = 0;
  for (int i = 0; i < 20'000; ++i) {
    now += random.between(0, 1 + i / 10);
    const double amount = 1 + i % 7;
    bins.add(1, at(now), at(now + random.between(0, 500)), amount);
    bins.set(0, at(now), i);
    whole += amount;
  }
  CHECK(sum(bins.sums(1)) == Approx(whole));
  CHECK(bins.sums(1).size() == 64);
  CHECK(bins.values(0, 64).back() == 19'999);
  CHECK(bins.count(at(now)) > 31);
}

}  // namespace taut::lab
