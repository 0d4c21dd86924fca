#include <algorithm>
#include <cstdint>
#include <random>

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

TEST_CASE("a member's position is the clock that it computes, at most the slack ahead of V",
          "[slice]") {
  const Slack slack(2);
  OneSlice one(JobMaker(2, slack));
  const auto position = [&](std::uint32_t worker) {
    return one.slice->position(WorkerId(worker), slack);
  };
  CHECK(position(0).clock == Clock(0));
  CHECK_FALSE(position(0).waits);
  for (std::int64_t clock = 0; clock < 3; ++clock) {
    one.push(0, clock);
    // The push has arrived, and its read has not.
    CHECK(position(0).clock <= Clock(2));
    const bool is_answered = one.read(0, clock + 1).has_value();
    CHECK(position(0).waits == !is_answered);
  }
  // done(0) is 3, and V is 0: it waits for the values of clock 3, one beyond the bound.
  CHECK(one.slice->done(WorkerId(0)) == Clock(3));
  CHECK(position(0).clock == Clock(2));
  CHECK(position(0).waits);
  CHECK(position(1).clock == Clock(0));
  one.push(1, 0);
  CHECK(position(0).clock == Clock(3));
  CHECK_FALSE(position(0).waits);
  CHECK(one.slice->position(WorkerId(0), kAsync).clock == Clock(3));
}

TEST_CASE("a push is accepted only when its clock equals done(w)", "[slice]") {
  OneSlice one(JobMaker(2, Slack(1)));
  CHECK(one.push(0, 1) == PushVerdict::kAhead);
  CHECK(one.slice->done(WorkerId(0)) == Clock(0));
  CHECK(same_bits(one.values(), initial()));
  CHECK(one.push(0, 0) == PushVerdict::kAccept);
  CHECK(one.slice->done(WorkerId(0)) == Clock(1));
  const auto once = one.values();
  CHECK(one.push(0, 0) == PushVerdict::kDuplicate);
  CHECK(same_bits(one.values(), once));
  CHECK(one.slice->done(WorkerId(0)) == Clock(1));
}

TEST_CASE("each push is applied exactly once, in whatever order and however often it arrives",
          "[slice]") {
  const std::uint64_t seed = 11;
  CAPTURE(seed);
  std::mt19937_64 random(seed);
  constexpr std::int64_t kClocks = 20;
  for (int round = 0; round < 20; ++round) {
    OneSlice one(JobMaker(3, Slack(0)));
    // Every push goes out again and again until all were accepted, in random order.
    while (one.slice->version() < Clock(kClocks)) {
      const auto worker = static_cast<std::uint32_t>(random() % 3);
      one.push(worker, static_cast<std::int64_t>(random() % kClocks));
    }
    auto expected = initial();
    for (std::int64_t clock = 0; clock < kClocks; ++clock) {
      expected = descend(expected, {own(0, clock), own(1, clock), own(2, clock)}, 3, clock);
    }
    REQUIRE(same_bits(one.values(), expected));
  }
}

TEST_CASE("BSP sums a clock in worker order: the bits are the same for every order of arrival",
          "[slice]") {
  Workers order = {0, 1, 2, 3};
  const auto expected = descend(initial(), {own(0, 0), own(1, 0), own(2, 0), own(3, 0)}, 4);
  // The premise: another order of the sum gives other bits.
  CHECK_FALSE(
      same_bits(expected, descend(initial(), {own(3, 0), own(0, 0), own(2, 0), own(1, 0)}, 4)));
  do {
    OneSlice one(JobMaker(4));
    for (const std::uint32_t worker : order) {
      CHECK(same_bits(one.values(), initial()));
      one.push(worker, 0);
    }
    CHECK(same_bits(one.values(), expected));
  } while (std::ranges::next_permutation(order).found);
}

TEST_CASE("BSP holds a fast worker's next update until its clock is complete", "[slice]") {
  OneSlice one(JobMaker(2));
  one.push(0, 0);
  one.push(0, 1);
  one.push(0, 2);
  CHECK(one.slice->version() == Clock(0));
  CHECK(same_bits(one.values(), initial()));
  one.push(1, 0);
  CHECK(one.slice->version() == Clock(1));
  const auto first = descend(initial(), {own(0, 0), own(1, 0)}, 2);
  CHECK(same_bits(one.values(), first));
  one.push(1, 1);
  CHECK(same_bits(one.values(), descend(first, {own(0, 1), own(1, 1)}, 2, 1)));
}

}  // namespace taut::server
