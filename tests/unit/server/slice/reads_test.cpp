#include <algorithm>
#include <cstdint>
#include <utility>
#include <vector>

#include "tests/unit/server/slice/one_slice.hpp"

namespace taut::server {
namespace {

using test::descend;
using test::initial;
using test::JobMaker;
using test::kAsync;
using test::kCount;
using test::OneSlice;
using test::own;
using test::same_bits;
using test::Workers;

}  // namespace

TEST_CASE("a read is answered exactly when V >= c - s and done(reader) >= c", "[slice]") {
  for (const std::int64_t slack : {std::int64_t{0}, std::int64_t{1}, std::int64_t{3}}) {
    for (std::int64_t ahead = 0; ahead <= 5; ++ahead) {
      CAPTURE(slack, ahead);
      OneSlice one(JobMaker(2, Slack(slack)));
      for (std::int64_t clock = 0; clock < ahead; ++clock) one.push(0, clock);
      CHECK(one.read(0, ahead).has_value() == (ahead <= slack));
      // Own updates up to c - 1 must have been accepted, whatever V says.
      CHECK_FALSE(one.read(0, ahead + 1).has_value());
    }
  }
}

TEST_CASE("ASYNC never waits, but a reader always reads its own writes", "[slice]") {
  OneSlice one(JobMaker(2, kAsync));
  for (std::int64_t clock = 0; clock < 9; ++clock) one.push(0, clock);
  const auto answer = one.read(0, 9);
  REQUIRE(answer);
  CHECK(answer->version == Clock(0));
  CHECK(answer->done == Clock(9));
  auto expected = initial();
  for (std::int64_t clock = 0; clock < 9; ++clock) {
    expected = descend(expected, {own(0, clock)}, 2, clock);
  }
  CHECK(same_bits(test::floats_of(answer->values), expected));
  CHECK_FALSE(one.read(0, 10));
  one.push(0, 9);
  CHECK(one.take_released() == Workers{0});
}

TEST_CASE("an answer carries V and done(reader)", "[slice]") {
  OneSlice one(JobMaker(2, Slack(3)));
  one.push(0, 0);
  one.push(0, 1);
  one.push(1, 0);
  const auto answer = one.read(0, 2);
  REQUIRE(answer);
  CHECK(answer->version == Clock(1));
  CHECK(answer->done == Clock(2));
  CHECK(answer->reader.clock == Clock(2));
}

TEST_CASE("members read values as the job's compression says, encoded once for each application",
          "[slice][compression]") {
  for (const auto scheme :
       {pb::PullCompression::FP16, pb::PullCompression::BF16, pb::PullCompression::INT8}) {
    JobMaker maker(2);
    auto& pull = *maker.state.mutable_definition()->mutable_compression()->add_pull();
    pull.set_scheme(scheme);
    pull.set_min_values(1);
    OneSlice one(std::move(maker));
    for (std::int64_t clock = 0; clock < 3; ++clock) {
      // In BSP there is one application a clock.
      const math::Encoding encoding = one.view->compression.of_pull(test::make_table(0, {kCount}));
      std::vector<std::byte> expected(math::encoded_bytes(encoding, kCount));
      math::encode(encoding, one.values(),
                   math::draw_of(42, static_cast<std::uint64_t>(clock), 65535, 0, 0),
                   expected.data());
      const auto first = one.read(0, clock);
      const auto second = one.read(1, clock);
      REQUIRE(first.has_value());
      REQUIRE(second.has_value());
      CHECK(first->encoding == encoding);
      CHECK(std::ranges::equal(first->values.bytes(), expected));
      CHECK(first->values.bytes().data() == second->values.bytes().data());
      // A reader that is not a member gets them as they are.
      const Answer snapshot = one.slice->snapshot(PeerId(9));
      CHECK(snapshot.encoding == math::Encoding());
      CHECK(snapshot.values.size() == kCount * sizeof(float));
      const auto followed = one.slice->follow(PeerId(9), Clock(clock));
      REQUIRE(followed.has_value());
      CHECK(followed->encoding == math::Encoding());
      one.push(0, clock);
      one.push(1, clock);
    }
  }
}

TEST_CASE("every parked read that a rise of V satisfies is released, never only an exact match",
          "[slice]") {
  // Worker 4's loss makes V jump from 0 to 2: reads that need V >= 1 and V >= 2 are both released.
  OneSlice one(JobMaker(5, Slack(1)));
  for (std::uint32_t worker = 0; worker < 4; ++worker) {
    one.push(worker, 0);
    one.push(worker, 1);
  }
  one.push(0, 2);
  one.push(1, 2);
  CHECK_FALSE(one.read(0, 3));  // needs V >= 2
  CHECK_FALSE(one.read(1, 3));
  CHECK_FALSE(one.read(2, 2));  // needs V >= 1
  CHECK_FALSE(one.read(3, 2));
  CHECK(one.slice->parked() == 4);
  one.job.leave(WorkerId(4), Clock(0));
  one.change();
  CHECK(one.slice->version() == Clock(2));
  CHECK(one.take_released() == Workers{0, 1, 2, 3});
  CHECK(one.slice->parked() == 0);
}

TEST_CASE("a rise of V that does not satisfy a parked read leaves it parked", "[slice]") {
  OneSlice one(JobMaker(2, Slack(1)));
  for (std::int64_t clock = 0; clock < 3; ++clock) one.push(0, clock);
  CHECK_FALSE(one.read(0, 3));
  one.push(1, 0);
  CHECK(one.take_released().empty());
  one.push(1, 1);
  CHECK(one.take_released() == Workers{0});
}

TEST_CASE("a worker's newer read takes the place of its parked older one", "[slice]") {
  OneSlice one(JobMaker(2));
  one.push(0, 0);
  CHECK_FALSE(one.read(0, 1));
  one.push(0, 1);
  CHECK_FALSE(one.read(0, 2));
  CHECK(one.slice->parked() == 1);
  one.push(1, 0);
  CHECK(one.take_released().empty());
  one.push(1, 1);
  REQUIRE(one.released.size() == 1);
  CHECK(one.released[0].reader.clock == Clock(2));
}

TEST_CASE("a late copy of an older read that can be answered does not lose the parked newer one",
          "[slice]") {
  OneSlice one(JobMaker(2));
  one.push(0, 0);
  one.push(1, 0);
  CHECK(one.read(0, 1));
  one.push(0, 1);
  CHECK_FALSE(one.read(0, 2));
  CHECK(one.read(0, 1));
  one.push(1, 1);
  REQUIRE(one.released.size() == 1);
  CHECK(one.released[0].reader.clock == Clock(2));
}

TEST_CASE("a late copy of an older read that must wait does not lose the parked newer one",
          "[slice]") {
  OneSlice one(JobMaker(2));
  one.push(0, 0);
  one.push(0, 1);
  CHECK_FALSE(one.read(0, 2));
  CHECK_FALSE(one.read(0, 1));
  one.push(1, 0);
  one.push(1, 1);
  REQUIRE_FALSE(one.released.empty());
  CHECK(one.released.back().reader.clock == Clock(2));
}

TEST_CASE("a parked read is answered to the connection that requested it last", "[slice]") {
  OneSlice one(JobMaker(2));
  one.push(0, 0);
  CHECK_FALSE(one.slice->read({PeerId(5), WorkerId(0), Clock(1)}, *one.view));
  CHECK_FALSE(one.slice->read({PeerId(6), WorkerId(0), Clock(1)}, *one.view));
  one.push(1, 0);
  REQUIRE(one.released.size() == 1);
  CHECK(one.released[0].reader.peer == PeerId(6));
}

}  // namespace taut::server
