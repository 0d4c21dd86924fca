#include "common/ssp/slice_clock.hpp"

#include <algorithm>
#include <random>

#include "tests/support/catch.hpp"

using namespace taut;

namespace {

Member member(std::uint32_t worker, std::int64_t join = 0) {
  return {WorkerId(worker), Incarnation(worker + 1), Clock(join)};
}

Membership members(std::vector<Member> all) {
  return {EpochId(1), std::move(all), {{Clock(0), ApplyMode::kOnArrival}}};
}

bool push_next(SliceClock& clock, std::uint32_t worker) {
  return clock.accept(WorkerId(worker), clock.done(WorkerId(worker)));
}

}  // namespace

TEST_CASE("the version is the slowest member's progress", "[clock]") {
  SliceClock clock;
  clock.update(members({member(0), member(1)}));
  CHECK(clock.version() == Clock(0));
  CHECK_FALSE(push_next(clock, 0));
  CHECK_FALSE(push_next(clock, 0));
  CHECK(clock.done(WorkerId(0)) == Clock(2));
  CHECK(push_next(clock, 1));
  CHECK(clock.version() == Clock(1));
}

TEST_CASE("a push is expected once and in order", "[clock]") {
  SliceClock clock;
  clock.update(members({member(0)}));
  CHECK(clock.judge(WorkerId(0), Clock(0)) == PushVerdict::kAccept);
  CHECK(clock.judge(WorkerId(0), Clock(1)) == PushVerdict::kAhead);
  push_next(clock, 0);
  CHECK(clock.judge(WorkerId(0), Clock(0)) == PushVerdict::kDuplicate);
  CHECK(clock.judge(WorkerId(0), Clock(1)) == PushVerdict::kAccept);
}

TEST_CASE("a lost worker blocks no other beyond its leave clock", "[clock]") {
  SliceClock clock;
  clock.update(members({member(0), member(1)}));
  for (int i = 0; i < 5; ++i) push_next(clock, 0);
  push_next(clock, 1);
  CHECK(clock.version() == Clock(1));

  Member lost = member(1);
  lost.leave = Clock(1);
  CHECK(clock.update(members({member(0), lost})));
  CHECK(clock.version() == Clock(5));
}

TEST_CASE("a lost worker that owes an update from before its leave clock still counts", "[clock]") {
  SliceClock clock;
  Member lost = member(1);
  lost.leave = Clock(3);
  clock.update(members({member(0), lost}));
  for (int i = 0; i < 5; ++i) push_next(clock, 0);
  CHECK(clock.version() == Clock(0));
}

TEST_CASE("a joining worker counts from its join clock and never lowers the version", "[clock]") {
  SliceClock clock;
  clock.update(members({member(0)}));
  for (int i = 0; i < 4; ++i) push_next(clock, 0);
  CHECK(clock.version() == Clock(4));
  clock.update(members({member(0), member(1, 6)}));
  CHECK(clock.version() == Clock(4));
  for (int i = 0; i < 4; ++i) push_next(clock, 0);
  CHECK(clock.version() == Clock(6));
  CHECK(clock.done(WorkerId(1)) == Clock(6));
}

TEST_CASE("the version does not change when no member is left", "[clock]") {
  SliceClock clock;
  clock.update(members({member(0)}));
  push_next(clock, 0);
  Member lost = member(0);
  lost.leave = Clock(1);
  CHECK_FALSE(clock.update(members({lost})));
  CHECK(clock.version() == Clock(1));
}

TEST_CASE("a read is answered exactly when the contract allows it", "[clock]") {
  for (std::int64_t v = 0; v < 8; ++v) {
    for (std::int64_t done = 0; done < 8; ++done) {
      for (std::int64_t c = 0; c < 8; ++c) {
        for (std::int64_t s = 0; s < 4; ++s) {
          CHECK(may_read(Clock(v), Clock(done), Clock(c), Slack(s)) == (v >= c - s && done >= c));
        }
        CHECK(may_read(Clock(v), Clock(done), Clock(c), Slack::unbounded()) == (done >= c));
      }
    }
  }
}

TEST_CASE("a member that is no longer named is forgotten, and V stays", "[clock]") {
  SliceClock clock;
  Member left = member(1);
  clock.update(members({member(0), left}));
  for (int i = 0; i < 3; ++i) push_next(clock, 0);
  push_next(clock, 1);
  left.leave = Clock(1);
  clock.update(members({member(0), left}));
  CHECK(clock.version() == Clock(3));
  CHECK_FALSE(clock.update(members({member(0)})));
  CHECK(clock.version() == Clock(3));
  CHECK(clock.holds_back(WorkerId(0), Clock(4)) == WorkerId(0));
}

TEST_CASE("with a backup worker a clock is over when all but one have pushed it", "[clock]") {
  SliceClock clock(1);
  clock.update(members({member(0), member(1), member(2)}));
  CHECK_FALSE(push_next(clock, 0));
  CHECK(push_next(clock, 2));
  CHECK(clock.version() == Clock(1));
  // The one that was left behind is still expected at the clock that is over.
  CHECK(clock.judge(WorkerId(1), Clock(0)) == PushVerdict::kAccept);
  CHECK_FALSE(push_next(clock, 1));
  CHECK(clock.judge(WorkerId(1), Clock(0)) == PushVerdict::kDuplicate);
}

TEST_CASE("a worker behind the version may skip clocks that are over, and no others", "[clock]") {
  SliceClock clock(1);
  clock.update(members({member(0), member(1), member(2)}));
  for (int i = 0; i < 4; ++i) {
    push_next(clock, 0);
    push_next(clock, 1);
  }
  CHECK(clock.version() == Clock(4));
  CHECK(clock.judge(WorkerId(2), Clock(5)) == PushVerdict::kAhead);
  CHECK(clock.judge(WorkerId(0), Clock(5)) == PushVerdict::kAhead);
  CHECK(clock.judge(WorkerId(2), Clock(4)) == PushVerdict::kAccept);
  clock.accept(WorkerId(2), Clock(4));
  CHECK(clock.done(WorkerId(2)) == Clock(5));
  CHECK(clock.judge(WorkerId(2), Clock(2)) == PushVerdict::kDuplicate);
}

TEST_CASE("without backup workers a member behind a restored version skips no clock", "[clock]") {
  SliceClock clock;
  clock.begin_version(Clock(4));
  clock.begin_at(WorkerId(0), Clock(2));
  (void)clock.update(members({member(0)}));
  for (const std::int64_t ahead : {3, 4}) {
    CHECK(clock.judge(WorkerId(0), Clock(ahead)) == PushVerdict::kAhead);
  }
  for (const std::int64_t next : {2, 3}) {
    REQUIRE(clock.judge(WorkerId(0), Clock(next)) == PushVerdict::kAccept);
    CHECK_FALSE(clock.accept(WorkerId(0), Clock(next)));
  }
  REQUIRE(clock.judge(WorkerId(0), Clock(4)) == PushVerdict::kAccept);
  CHECK(clock.accept(WorkerId(0), Clock(4)));
  CHECK(clock.version() == Clock(5));
}

TEST_CASE("a restored version rises where no member's pushes end exactly there", "[clock]") {
  SliceClock clock(0, {.interval = 5});
  clock.begin_version(Clock(7));
  clock.begin_at(WorkerId(0), Clock(4));
  clock.begin_at(WorkerId(1), Clock(7));
  (void)clock.update(members({member(0), member(1, 7)}));
  for (const auto& [worker, at] : {std::pair(1U, 9), {0U, 4}, {0U, 9}}) {
    REQUIRE(clock.judge(WorkerId(worker), Clock(at)) == PushVerdict::kAccept);
    (void)clock.accept(WorkerId(worker), Clock(at));
  }
  CHECK(clock.version() == Clock(10));
}

TEST_CASE("backup workers are at most all but one", "[clock]") {
  SliceClock clock(2);
  Member lost = member(1);
  lost.leave = Clock(0);
  clock.update(members({member(0), lost}));
  CHECK(clock.version() == Clock(0));
  CHECK(push_next(clock, 0));
  CHECK(clock.version() == Clock(1));
}

TEST_CASE("where members push at the end of an interval, that is the clock expected", "[clock]") {
  SliceClock clock(0, {.interval = 4, .end = Clock(10)});
  clock.update(members({member(0), member(1, 5)}));
  CHECK(clock.judge(WorkerId(0), Clock(0)) == PushVerdict::kAhead);
  CHECK(clock.judge(WorkerId(0), Clock(3)) == PushVerdict::kAccept);
  clock.accept(WorkerId(0), Clock(3));
  CHECK(clock.done(WorkerId(0)) == Clock(4));
  CHECK(clock.judge(WorkerId(1), Clock(7)) == PushVerdict::kAccept);
  clock.accept(WorkerId(0), Clock(7));
  CHECK(clock.version() == Clock(5));
  // The job's last clock ends a shorter interval.
  CHECK(clock.judge(WorkerId(0), Clock(9)) == PushVerdict::kAccept);
  CHECK(clock.judge(WorkerId(0), Clock(11)) == PushVerdict::kAhead);
}

TEST_CASE("V is the slowest member's clock whatever they push, join and leave", "[clock]") {
  const auto seed = GENERATE(range(1U, 21U));
  CAPTURE(seed);
  std::mt19937 random(seed);
  std::vector<Member> all = {member(0), member(1), member(2)};
  SliceClock clock;
  clock.update(members(all));
  for (int step = 0; step < 200; ++step) {
    CAPTURE(step);
    Member& one = all[random() % all.size()];
    const Clock done = clock.done(one.worker);
    const auto number = static_cast<std::uint32_t>(all.size());
    if (random() % 20 == 0 && one.leave == Clock::never()) {
      one.leave = done;
      clock.update(members(all));
    } else if (random() % 20 == 1 && number < 8) {
      all.push_back(member(number, clock.version().value() + 2));
      clock.update(members(all));
    } else if (done < one.leave) {
      clock.accept(one.worker, done);
    }
    Clock lowest = Clock::never();
    WorkerId slowest;
    for (const Member& each : all) {
      const Clock next = clock.done(each.worker);
      if (next >= each.leave || next >= lowest) continue;
      lowest = next;
      slowest = each.worker;
    }
    if (lowest == Clock::never()) break;
    CHECK(clock.version() == lowest);
    CHECK(clock.holds_back(WorkerId(0), Clock(0)) == slowest);
  }
}

TEST_CASE("members are counted at a clock as a look at each of them counts", "[membership]") {
  const auto seed = GENERATE(range(1U, 21U));
  CAPTURE(seed);
  std::mt19937 random(seed);
  std::vector<Member> all;
  for (std::uint32_t worker = 0; worker < 12; ++worker) {
    all.push_back(member(worker, random() % 6));
    // Some leave before they join, and take part in nothing.
    if (random() % 2 == 0) all.back().leave = Clock(random() % 8);
  }
  const Membership whole = members(all);
  const Membership changed = whole.with_leaves({{WorkerId(3), Clock(2)}, {WorkerId(5), Clock(4)}});
  CHECK(members({member(0), member(1, 3)}).any_leaves() == false);
  for (const Membership* one : {&whole, &changed}) {
    CHECK(one->any_leaves());
    for (std::int64_t clock = 0; clock < 10; ++clock) {
      const auto count = std::ranges::count_if(
          one->members(), [&](const Member& each) { return each.takes_part_at(Clock(clock)); });
      CHECK(one->count_at(Clock(clock)) == static_cast<std::size_t>(count));
    }
  }
}
