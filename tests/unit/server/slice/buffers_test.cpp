#include <cstdint>
#include <utility>
#include <vector>

#include "tests/unit/server/slice/one_slice.hpp"

namespace taut::server {
namespace {

using test::initial;
using test::JobMaker;
using test::kAsync;
using test::OneSlice;
using test::same_bits;

}  // namespace

TEST_CASE("a snapshot never waits and never holds a writer back", "[slice]") {
  OneSlice one(JobMaker(2));
  one.push(0, 0);
  const Answer early = one.slice->snapshot(PeerId(9));
  CHECK(early.version == Clock(0));
  CHECK(same_bits(test::floats_of(early.values), initial()));
  CHECK(one.push(1, 0) == PushVerdict::kAccept);
  CHECK(one.slice->snapshot(PeerId(9)).version == Clock(1));
  CHECK(same_bits(test::floats_of(early.values), initial()));
}

TEST_CASE("values that a reader received never change afterwards", "[slice]") {
  for (const char* solver : {"SGD", "Nesterov", "Adam"}) {
    CAPTURE(solver);
    JobMaker maker(1, Slack(1));
    maker.solver().set_type(solver);
    maker.solver().set_momentum(0.9F);
    OneSlice one(maker);
    std::vector<std::pair<Frame, std::vector<float>>> given;
    for (std::int64_t clock = 0; clock < 6; ++clock) {
      const auto answer = one.read(0, clock);
      REQUIRE(answer);
      given.emplace_back(answer->values, test::floats_of(answer->values));
      one.push(0, clock);
      CHECK_FALSE(same_bits(one.values(), given.back().second));
      for (const auto& [frame, seen] : given) CHECK(same_bits(test::floats_of(frame), seen));
    }
  }
}

TEST_CASE("values that a checkpoint received never change, however many there are", "[slice]") {
  JobMaker job(1, kAsync);
  job.solver().set_type("Adam");
  job.solver().set_momentum(0.9F);
  job.state.mutable_definition()->mutable_consistency()->mutable_delay_compensation()->set_decay(
      0.9F);
  OneSlice one(std::move(job));
  const auto bits_of = [](const SliceImage& image) {
    std::vector<std::vector<float>> all;
    all.emplace_back(image.values.floats().begin(), image.values.floats().end());
    for (const Buffer& state : image.states) {
      all.emplace_back(state.floats().begin(), state.floats().end());
    }
    return all;
  };
  std::vector<SliceImage> images;
  std::vector<std::vector<std::vector<float>>> as_taken;
  std::vector<std::vector<float>> as_read;
  for (std::int64_t clock = 0; clock < 6; ++clock) {
    // The second and third order find a slice that nothing has written to since the first.
    for (int again = 0; clock % 2 == 1 && again < 3; ++again) {
      pb::CheckpointOrder& order = *one.job.state.mutable_checkpoint();
      order.set_number(order.number() + 1);
      order.set_clock(clock);
      one.change();
      REQUIRE(one.slice->capture() == SliceCapture::State::kReady);
      images.push_back(one.slice->take_image());
      as_taken.push_back(bits_of(images.back()));
      as_read.push_back(one.values());
      CHECK(as_taken.back().size() == 4);  // values, both moments, the mean square
    }
    REQUIRE(one.read(0, clock).has_value());
    REQUIRE(one.push(0, clock) == PushVerdict::kAccept);
  }
  REQUIRE(images.size() == 9);
  for (std::size_t i = 0; i < images.size(); ++i) {
    const auto now = bits_of(images[i]);
    for (std::size_t k = 0; k < now.size(); ++k) CHECK(same_bits(now[k], as_taken[i][k]));
    CHECK(same_bits(now[0], as_read[i]));
  }
  CHECK_FALSE(same_bits(as_read.front(), as_read.back()));
}

TEST_CASE("an update that does not change the mean square takes no memory from the next one",
          "[slice]") {
  JobMaker job(2, kAsync);
  job.state.mutable_definition()->mutable_consistency()->mutable_delay_compensation()->set_decay(
      0.9F);
  OneSlice one(std::move(job));
  REQUIRE(one.read(0, 0).has_value());
  REQUIRE(one.push(0, 0) == PushVerdict::kAccept);
  REQUIRE(one.read(0, 1).has_value());
  one.job.state.mutable_checkpoint()->set_number(1);
  one.change();
  REQUIRE(one.slice->capture() == SliceCapture::State::kReady);
  const SliceImage image = one.slice->take_image();
  const std::vector<float> taken(image.states.back().floats().begin(),
                                 image.states.back().floats().end());
  // This worker has read nothing, so its gradient is taken as it is.
  REQUIRE(one.push(1, 0) == PushVerdict::kAccept);
  REQUIRE(one.push(0, 1) == PushVerdict::kAccept);
  const std::vector<float> now(image.states.back().floats().begin(),
                               image.states.back().floats().end());
  CHECK(same_bits(now, taken));
}

TEST_CASE("a slice without an image is overwritten in place", "[slice]") {
  JobMaker job(1, kAsync);
  job.solver().set_momentum(0.9F);
  OneSlice one(std::move(job));
  REQUIRE(one.push(0, 0) == PushVerdict::kAccept);
  const auto used = one.used();
  pb::CheckpointOrder& order = *one.job.state.mutable_checkpoint();
  order.set_number(1);
  order.set_clock(1);
  one.change();
  {
    const SliceImage image = one.slice->take_image();
    REQUIRE(one.push(0, 1) == PushVerdict::kAccept);
    CHECK(one.used() == 2 * used);
  }
  CHECK(one.used() == used);
  REQUIRE(one.push(0, 2) == PushVerdict::kAccept);
  CHECK(one.used() == used);
}

}  // namespace taut::server
