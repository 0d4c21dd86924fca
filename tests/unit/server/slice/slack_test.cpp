#include <cstdint>

#include "tests/unit/server/slice/one_slice.hpp"

namespace taut::server {
namespace {

using test::descend;
using test::initial;
using test::JobMaker;
using test::kAsync;
using test::OneSlice;
using test::own;
using test::same_bits;
using test::Workers;

}  // namespace

TEST_CASE("raising the slack releases the parked reads that it now allows", "[slice]") {
  OneSlice one(JobMaker(3, Slack(1)));
  for (std::int64_t clock = 0; clock < 3; ++clock) one.push(0, clock);
  for (std::int64_t clock = 0; clock < 5; ++clock) one.push(1, clock);
  CHECK_FALSE(one.read(0, 3));
  CHECK_FALSE(one.read(1, 5));
  one.job.state.set_slack(3);
  one.change();
  CHECK(one.take_released() == Workers{0});
  one.job.state.set_slack(kAsync.clocks());
  one.change();
  CHECK(one.take_released() == Workers{1});
}

TEST_CASE("lowering the slack takes effect at the next read", "[slice]") {
  OneSlice one(JobMaker(2, Slack(3)));
  for (std::int64_t clock = 0; clock < 4; ++clock) one.push(0, clock);
  CHECK_FALSE(one.read(0, 4));  // parked under slack 3: needs V >= 1
  one.job.state.set_slack(1);
  one.change();
  one.push(1, 0);
  CHECK(one.take_released() == Workers{0});
  one.push(0, 4);
  CHECK_FALSE(one.read(0, 5));  // under slack 1: needs V >= 4
  for (std::int64_t clock = 1; clock < 3; ++clock) one.push(1, clock);
  CHECK(one.take_released().empty());
  one.push(1, 3);
  CHECK(one.take_released() == Workers{0});
}

TEST_CASE("a change from BSP to SSP reads with slack 0 until the first update on arrival",
          "[slice]") {
  JobMaker maker(2);
  maker.mode_from(Clock(2), pb::ModeChange::ON_ARRIVAL);
  maker.state.set_slack(3);
  OneSlice one(maker);
  one.push(0, 0);
  CHECK_FALSE(one.read(0, 1));
  one.push(1, 0);
  one.push(0, 1);
  // Its own update 1 is part of an aggregate: only slack 0 shows it.
  CHECK_FALSE(one.read(0, 2));
  one.push(1, 1);
  CHECK(one.take_released() == Workers{0, 0});
  const auto both = one.values();
  one.push(0, 2);
  CHECK(same_bits(one.values(), descend(both, {own(0, 2)}, 2, 2)));
  CHECK(one.read(0, 3));
}

TEST_CASE("own writes that wait for an aggregate are read only once they are applied", "[slice]") {
  JobMaker maker(2);
  maker.mode_from(Clock(2), pb::ModeChange::ON_ARRIVAL);
  maker.state.set_slack(kAsync.clocks());
  OneSlice one(maker);
  for (std::int64_t clock = 0; clock < 3; ++clock) one.push(0, clock);
  // Update 2 must be applied on arrival, but aggregates 0 and 1 precede it.
  CHECK_FALSE(one.read(0, 3));
  one.push(1, 0);
  CHECK(one.take_released().empty());
  one.push(1, 1);
  REQUIRE(one.released.size() == 1);
  auto expected = descend(initial(), {own(0, 0), own(1, 0)}, 2);
  expected = descend(expected, {own(0, 1), own(1, 1)}, 2, 1);
  CHECK(same_bits(test::floats_of(one.released[0].values), descend(expected, {own(0, 2)}, 2, 2)));
}

TEST_CASE("a change from SSP to BSP aggregates from its clock on, whatever the slack is",
          "[slice]") {
  JobMaker maker(2, Slack(3));
  maker.mode_from(Clock(2), pb::ModeChange::AGGREGATE);
  OneSlice one(maker);
  one.push(0, 0);
  one.push(0, 1);
  CHECK(one.read(0, 2));
  auto expected = descend(initial(), {own(0, 0)}, 2);
  expected = descend(expected, {own(0, 1)}, 2, 1);
  one.push(0, 2);
  CHECK(same_bits(one.values(), expected));
  CHECK_FALSE(one.read(0, 3));
  // The slower worker's updates of the clocks before are applied on arrival, as before.
  one.push(1, 0);
  expected = descend(expected, {own(1, 0)}, 2);
  CHECK(same_bits(one.values(), expected));
  one.push(1, 1);
  expected = descend(expected, {own(1, 1)}, 2, 1);
  one.push(1, 2);
  CHECK(one.take_released() == Workers{0});
  CHECK(same_bits(one.values(), descend(expected, {own(0, 2), own(1, 2)}, 2, 2)));
}

}  // namespace taut::server
