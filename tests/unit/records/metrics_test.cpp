#include "worker/records/metrics_csv.hpp"

#include <algorithm>
#include <string>

#include "tests/support/catch.hpp"

namespace taut::worker {
namespace {

constexpr TimePoint kBegin{Duration(5'000'000)};

TimePoint after(std::int64_t milliseconds) {
  return kBegin + Duration(1000 * milliseconds);
}

TEST_CASE("an interval counts everything since the previous one", "[records]") {
  IntervalCounter counter(kBegin);
  std::map<std::int64_t, std::uint64_t> reads{{0, 4}};
  ClockFigures figures{Clock(0), 2.0, Duration(8000), Duration(3000), 64, &reads};
  counter.add(figures);
  const IntervalFigures first = counter.take(figures, after(10));
  CHECK(first.images == 64);
  CHECK(first.images_per_second() == Approx(6400));
  CHECK(first.compute_s == Approx(0.005));
  CHECK(first.wait_s == Approx(0.003));
  CHECK(first.reads == 4);
  CHECK(first.staleness_mean == 0);

  figures = {Clock(1), 1.0, Duration(12000), Duration(3000), 128, &reads};
  counter.add(figures);
  reads = {{0, 6}, {1, 1}, {3, 1}};
  figures = {Clock(2), 0.5, Duration(20000), Duration(4000), 192, &reads};
  counter.add(figures);
  const IntervalFigures second = counter.take(figures, after(30));
  CHECK(second.clock == Clock(2));
  CHECK(second.loss == Approx(0.75));
  CHECK(second.images == 128);
  CHECK(second.wait_s == Approx(0.001));
  CHECK(second.compute_s == Approx(0.011));
  CHECK(second.reads == 4);
  CHECK(second.staleness_mean == Approx(1.0));
  CHECK(second.staleness_max == 3);
}

TEST_CASE("every line of a metrics.csv has a cell for each column", "[records]") {
  const auto cells = [](const std::string& line) {
    CHECK(line.back() == '\n');
    return std::count(line.begin(), line.end(), ',') + 1;
  };
  IntervalFigures interval;
  interval.clock = Clock(7);
  interval.loss = 0.25;
  const auto columns = cells(metrics_header());
  CHECK(cells(metrics_line(interval, 1.5, 1.7e9)) == columns);
  CHECK(cells(metrics_line(TestFigures{Clock(8), 0.5, 1.25}, 1.5, 1.7e9)) == columns);
  CHECK(metrics_line(TestFigures{Clock(8), 0.5, 1.25, {}, 0.75}, 1.5, 1.7e9) ==
        "8,1700000000.000000,1.500000,,,,,,,,,0.5,1.25,0.750000,,\n");
}

TEST_CASE("a test without an accuracy leaves its cell empty", "[records]") {
  CHECK(metrics_line(TestFigures{Clock(8), std::nullopt, 1.25}, 1.5, 1.7e9) ==
        "8,1700000000.000000,1.500000,,,,,,,,,,1.25,0.000000,,\n");
}

}  // namespace
}  // namespace taut::worker
