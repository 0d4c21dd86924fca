#include "common/ssp/aggregation.hpp"

#include "tests/support/catch.hpp"

using namespace taut;

namespace {

Member member(std::uint32_t worker, Clock join = Clock(0), Clock leave = Clock::never()) {
  return {WorkerId(worker), Incarnation(worker + 1), join, leave};
}

Membership bsp(std::vector<Member> members) {
  return {EpochId(1), std::move(members), {{Clock(0), ApplyMode::kAggregate}}};
}

}  // namespace

TEST_CASE("BSP applies a clock when all its members' updates have arrived", "[aggregation]") {
  const ModeAggregation policy;
  const Membership both = bsp({member(0), member(1)});
  CHECK_FALSE(policy.next({{Clock(0), {WorkerId(1)}}}, both));
  const auto ready = policy.next({{Clock(0), {WorkerId(0), WorkerId(1)}}}, both);
  REQUIRE(ready);
  CHECK(ready->clock == Clock(0));
  CHECK(ready->workers == std::vector{WorkerId(0), WorkerId(1)});
  CHECK(ready->members == 2);
}

TEST_CASE("BSP aggregates clocks in order", "[aggregation]") {
  const ModeAggregation policy;
  const HeldUpdates held = {{Clock(3), {WorkerId(0)}}, {Clock(4), {WorkerId(0), WorkerId(1)}}};
  CHECK_FALSE(policy.next(held, bsp({member(0), member(1)})));
}

TEST_CASE("BSP does not wait for a worker that has left", "[aggregation]") {
  const ModeAggregation policy;
  const Membership after = bsp({member(0), member(1, Clock(0), Clock(3))});
  CHECK_FALSE(policy.next({{Clock(2), {WorkerId(0)}}}, after));
  const auto ready = policy.next({{Clock(3), {WorkerId(0)}}}, after);
  REQUIRE(ready);
  CHECK(ready->members == 1);
}

TEST_CASE("on arrival each update is applied at once and divided by the clock's members",
          "[aggregation]") {
  const ModeAggregation policy;
  const Membership growing(EpochId(2), {member(0), member(1, Clock(5))},
                           {{Clock(0), ApplyMode::kOnArrival}});
  const auto early = policy.next({{Clock(4), {WorkerId(0)}}}, growing);
  REQUIRE(early);
  CHECK(early->members == 1);
  const auto late = policy.next({{Clock(5), {WorkerId(0), WorkerId(1)}}}, growing);
  REQUIRE(late);
  CHECK(late->workers == std::vector{WorkerId(0)});
  CHECK(late->members == 2);
}

TEST_CASE("the mode is a function of the clock", "[aggregation]") {
  const Membership changing(
      EpochId(3), {member(0)},
      {{Clock(0), ApplyMode::kAggregate}, {Clock(10), ApplyMode::kOnArrival}});
  CHECK(changing.mode_at(Clock(9)) == ApplyMode::kAggregate);
  CHECK(changing.mode_at(Clock(10)) == ApplyMode::kOnArrival);
}

TEST_CASE("with backup workers a clock is applied when all other updates have arrived",
          "[aggregation]") {
  const BackupAggregation policy(1);
  const Membership three = bsp({member(0), member(1), member(2)});
  CHECK_FALSE(policy.next({{Clock(0), {WorkerId(1)}}}, three));
  const auto ready = policy.next({{Clock(0), {WorkerId(1), WorkerId(2)}}}, three);
  REQUIRE(ready);
  CHECK(ready->workers == std::vector{WorkerId(1), WorkerId(2)});
  // The mean is over those that count.
  CHECK(ready->members == 2);
}

TEST_CASE("with backup workers one update at least is waited for", "[aggregation]") {
  const BackupAggregation policy(2);
  const Membership one = bsp({member(0)});
  CHECK_FALSE(policy.next({}, one));
  CHECK(policy.next({{Clock(0), {WorkerId(0)}}}, one));
  const Membership none = bsp({member(0, Clock(0), Clock(3))});
  CHECK_FALSE(policy.next({{Clock(3), {WorkerId(0)}}}, none));
}
