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

TEST_CASE("a lost worker leaves from the cut: its held updates from there on are dropped",
          "[slice]") {
  OneSlice one(JobMaker(3));
  one.push(2, 0);
  one.push(2, 1);
  one.push(0, 0);
  one.push(0, 1);
  one.job.fence(WorkerId(2));
  one.change();
  // Fenced, but without a cut it still counts.
  CHECK(one.slice->version() == Clock(0));
  one.job.leave(WorkerId(2), Clock(1));
  one.change();
  CHECK(same_bits(one.values(), initial()));
  // Below the cut its update takes part, and the sum is divided by three.
  one.push(1, 0);
  auto expected = descend(initial(), {own(0, 0), own(1, 0), own(2, 0)}, 3);
  CHECK(same_bits(one.values(), expected));
  // From the cut on it does not, and the sum is divided by the two that remain.
  one.push(1, 1);
  expected = descend(expected, {own(0, 1), own(1, 1)}, 2, 1);
  CHECK(same_bits(one.values(), expected));
  CHECK(one.slice->version() == Clock(2));
}

TEST_CASE("a loss completes the clocks that only waited for the lost worker, in order", "[slice]") {
  OneSlice one(JobMaker(3));
  for (std::int64_t clock = 0; clock < 3; ++clock) {
    one.push(0, clock);
    one.push(1, clock);
  }
  CHECK_FALSE(one.read(0, 3));
  one.job.leave(WorkerId(2), Clock(0));
  one.change();
  auto expected = initial();
  for (std::int64_t clock = 0; clock < 3; ++clock) {
    expected = descend(expected, {own(0, clock), own(1, clock)}, 2, clock);
  }
  CHECK(same_bits(one.values(), expected));
  CHECK(one.take_released() == Workers{0});
}

TEST_CASE("applied updates of a lost worker stay", "[slice]") {
  OneSlice one(JobMaker(2, Slack(5)));
  for (std::int64_t clock = 0; clock < 3; ++clock) one.push(1, clock);
  const auto before = one.values();
  one.job.leave(WorkerId(1), Clock(1));
  one.change();
  CHECK(same_bits(one.values(), before));
  // A survivor's update below the cut is divided by both members, from it on by one.
  one.push(0, 0);
  auto expected = descend(before, {own(0, 0)}, 2);
  CHECK(same_bits(one.values(), expected));
  one.push(0, 1);
  CHECK(same_bits(one.values(), descend(expected, {own(0, 1)}, 1, 1)));
}

TEST_CASE("the parked read of a fenced worker is forgotten", "[slice]") {
  OneSlice one(JobMaker(2));
  one.push(0, 0);
  CHECK_FALSE(one.read(0, 1));
  one.job.fence(WorkerId(0));
  one.change();
  CHECK(one.slice->parked() == 0);
  one.push(1, 0);
  CHECK(one.take_released().empty());
}

TEST_CASE("a joining worker counts from its clock on", "[slice]") {
  OneSlice one(JobMaker(1));
  one.push(0, 0);
  const WorkerId joined = one.job.join(Clock(2));
  one.change();
  CHECK(one.slice->done(joined) == Clock(2));
  CHECK(one.push(joined.value(), 1) == PushVerdict::kDuplicate);
  one.push(0, 1);
  CHECK(one.slice->version() == Clock(2));
  auto expected = descend(descend(initial(), {own(0, 0)}, 1), {own(0, 1)}, 1, 1);
  CHECK(same_bits(one.values(), expected));
  one.push(0, 2);
  CHECK(same_bits(one.values(), expected));
  CHECK(one.push(joined.value(), 2) == PushVerdict::kAccept);
  CHECK(same_bits(one.values(), descend(expected, {own(0, 2), own(1, 2)}, 2, 2)));
  CHECK(one.slice->version() == Clock(3));
}

TEST_CASE("V never falls when a worker joins", "[slice]") {
  OneSlice one(JobMaker(1, kAsync));
  for (std::int64_t clock = 0; clock < 5; ++clock) one.push(0, clock);
  CHECK(one.slice->version() == Clock(5));
  one.job.join(Clock(7));
  one.change();
  CHECK(one.slice->version() == Clock(5));
}

TEST_CASE("a slice that is created after a worker has left does not wait for it", "[slice]") {
  JobMaker maker(2);
  maker.leave(WorkerId(1), Clock(0));
  OneSlice one(maker);
  one.push(0, 0);
  CHECK(one.slice->version() == Clock(1));
  CHECK(same_bits(one.values(), descend(initial(), {own(0, 0)}, 1)));
}

}  // namespace taut::server
