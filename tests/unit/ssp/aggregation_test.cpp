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

std::vector<WorkerId> workers_of(const Application& application) {
  std::vector<WorkerId> workers;
  for (const HeldUpdate& update : application.updates) workers.push_back(update.worker);
  return workers;
}

}  // namespace

TEST_CASE("BSP applies a clock when all its members' updates have arrived", "[aggregation]") {
  const ModeAggregation mode;
  const AggregationPolicy& policy = mode;
  const Membership both = bsp({member(0), member(1)});
  CHECK_FALSE(policy.next({{Clock(0), {WorkerId(1)}}}, both));
  const auto ready = policy.next({{Clock(0), {WorkerId(0), WorkerId(1)}}}, both);
  REQUIRE(ready);
  CHECK(ready->clock() == Clock(0));
  CHECK(workers_of(*ready) == std::vector{WorkerId(0), WorkerId(1)});
  CHECK(ready->members == 2);
}

TEST_CASE("BSP aggregates clocks in order", "[aggregation]") {
  const ModeAggregation mode;
  const AggregationPolicy& policy = mode;
  const HeldUpdates held = {{Clock(3), {WorkerId(0)}}, {Clock(4), {WorkerId(0), WorkerId(1)}}};
  CHECK_FALSE(policy.next(held, bsp({member(0), member(1)})));
}

TEST_CASE("BSP does not wait for a worker that has left", "[aggregation]") {
  const ModeAggregation mode;
  const AggregationPolicy& policy = mode;
  const Membership after = bsp({member(0), member(1, Clock(0), Clock(3))});
  CHECK_FALSE(policy.next({{Clock(2), {WorkerId(0)}}}, after));
  const auto ready = policy.next({{Clock(3), {WorkerId(0)}}}, after);
  REQUIRE(ready);
  CHECK(ready->members == 1);
}

TEST_CASE("on arrival each update is applied at once and divided by the clock's members",
          "[aggregation]") {
  const ModeAggregation mode;
  const AggregationPolicy& policy = mode;
  const Membership growing(EpochId(2), {member(0), member(1, Clock(5))},
                           {{Clock(0), ApplyMode::kOnArrival}});
  const auto early = policy.next({{Clock(4), {WorkerId(0)}}}, growing);
  REQUIRE(early);
  CHECK(early->members == 1);
  const auto late = policy.next({{Clock(5), {WorkerId(0), WorkerId(1)}}}, growing);
  REQUIRE(late);
  CHECK(workers_of(*late) == std::vector{WorkerId(0)});
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
  const BackupAggregation backup(1);
  const AggregationPolicy& policy = backup;
  const Membership three = bsp({member(0), member(1), member(2)});
  CHECK_FALSE(policy.next({{Clock(0), {WorkerId(1)}}}, three));
  const auto ready = policy.next({{Clock(0), {WorkerId(1), WorkerId(2)}}}, three);
  REQUIRE(ready);
  CHECK(workers_of(*ready) == std::vector{WorkerId(1), WorkerId(2)});
  // The mean is over those that count.
  CHECK(ready->members == 2);
}

TEST_CASE("with backup workers one update at least is waited for", "[aggregation]") {
  const BackupAggregation backup(2);
  const AggregationPolicy& policy = backup;
  const Membership one = bsp({member(0)});
  CHECK_FALSE(policy.next({}, one));
  CHECK(policy.next({{Clock(0), {WorkerId(0)}}}, one));
  const Membership none = bsp({member(0, Clock(0), Clock(3))});
  CHECK_FALSE(policy.next({{Clock(3), {WorkerId(0)}}}, none));
}

TEST_CASE("a buffer is applied when it is full, its oldest updates first", "[aggregation]") {
  const BufferedAggregation buffer(3, false);
  const AggregationPolicy& policy = buffer;
  const Membership three(EpochId(1), {member(0), member(1), member(2)},
                         {{Clock(0), ApplyMode::kOnArrival}});
  CHECK_FALSE(policy.next({}, three, Patience::kEnds));
  CHECK_FALSE(policy.next({{Clock(4), {WorkerId(2)}}, {Clock(5), {WorkerId(2)}}}, three));
  const HeldUpdates full = {{Clock(4), {WorkerId(0), WorkerId(2)}},
                            {Clock(5), {WorkerId(1), WorkerId(2)}}};
  const auto ready = policy.next(full, three);
  REQUIRE(ready);
  CHECK(workers_of(*ready) == std::vector{WorkerId(0), WorkerId(2), WorkerId(1)});
  CHECK(ready->clock() == Clock(5));
  CHECK(ready->members == 3);
}

TEST_CASE("what a buffer holds counts as much when no others are waited for", "[aggregation]") {
  const BufferedAggregation buffer(4, false);
  const AggregationPolicy& policy = buffer;
  const Membership one(EpochId(1), {member(0)}, {{Clock(0), ApplyMode::kOnArrival}});
  const auto ready = policy.next({{Clock(7), {WorkerId(0)}}}, one, Patience::kEnds);
  REQUIRE(ready);
  CHECK(workers_of(*ready) == std::vector{WorkerId(0)});
  CHECK(ready->members == 4);
}

TEST_CASE("initial values wait for no buffer", "[aggregation]") {
  const BufferedAggregation buffer(4, true);
  const AggregationPolicy& policy = buffer;
  const Membership one(EpochId(1), {member(0)}, {{Clock(0), ApplyMode::kOnArrival}});
  CHECK(policy.next({{Clock(0), {WorkerId(0)}}}, one));
  CHECK_FALSE(policy.next({{Clock(1), {WorkerId(0)}}}, one));
}
