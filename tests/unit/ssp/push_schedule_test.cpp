#include "common/ssp/push_schedule.hpp"

#include <vector>

#include "common/ssp/fragments.hpp"
#include "tests/support/catch.hpp"

using namespace taut;

namespace {

std::vector<std::int64_t> pushes(const PushSchedule& schedule, std::int64_t until) {
  std::vector<std::int64_t> clocks;
  for (std::int64_t clock = 0; clock < until; ++clock) {
    if (schedule.pushes_at(Clock(clock))) clocks.push_back(clock);
    CHECK(schedule.first_from(Clock(clock)) >= Clock(clock));
    CHECK(schedule.pushes_at(schedule.first_from(Clock(clock))));
  }
  return clocks;
}

std::vector<TableSpec> tables_of(const std::vector<std::int64_t>& sizes) {
  std::vector<TableSpec> tables;
  for (const std::int64_t size : sizes) {
    TableSpec& table = tables.emplace_back();
    table.id = TableId(static_cast<std::uint32_t>(tables.size() - 1));
    table.shape = {size};
  }
  return tables;
}

}  // namespace

TEST_CASE("fragments push in turn, an interval apart each, and all at the end", "[clock]") {
  const PushSchedule job{.interval = 6, .end = Clock(15), .fragments = 3};
  CHECK(pushes(job.of_fragment(0), 15) == std::vector<std::int64_t>{5, 11, 14});
  CHECK(pushes(job.of_fragment(1), 15) == std::vector<std::int64_t>{1, 7, 13, 14});
  CHECK(pushes(job.of_fragment(2), 15) == std::vector<std::int64_t>{3, 9, 14});
}

TEST_CASE("programs' fragments meet in turn, after all have brought their initial values",
          "[clock]") {
  const PushSchedule job{.interval = 3, .fragments = 3, .is_seeded = true};
  CHECK(pushes(job.of_fragment(0), 10) == std::vector<std::int64_t>{0, 2, 5, 8});
  CHECK(pushes(job.of_fragment(1), 10) == std::vector<std::int64_t>{0, 3, 6, 9});
  CHECK(pushes(job.of_fragment(2), 10) == std::vector<std::int64_t>{0, 1, 4, 7});
}

TEST_CASE("one fragment pushes at the ends of whole intervals", "[clock]") {
  const PushSchedule job{.interval = 4, .end = Clock(10)};
  CHECK(pushes(job, 10) == std::vector<std::int64_t>{3, 7, 9});
  CHECK(pushes(job.of_fragment(0), 10) == pushes(job, 10));
  CHECK(pushes({}, 3) == std::vector<std::int64_t>{0, 1, 2});
}

TEST_CASE("tables are divided into fragments of similar size, in their order", "[clock]") {
  CHECK(fragments_of(tables_of({10, 1, 10, 1, 10, 1, 10, 1}), 2) ==
        std::vector<std::uint32_t>{0, 0, 0, 0, 1, 1, 1, 1});
  CHECK(fragments_of(tables_of({1, 1, 100, 1}), 3) == std::vector<std::uint32_t>{0, 0, 1, 2});
  CHECK(fragments_of(tables_of({5, 5}), 1) == std::vector<std::uint32_t>{0, 0});
  // More of them than tables.
  CHECK(fragments_of(tables_of({7}), 4) == std::vector<std::uint32_t>{2});
}
