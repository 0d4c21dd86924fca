#include <cstdint>
#include <vector>

#include "tests/unit/server/slice/one_slice.hpp"

namespace taut::server {
namespace {

using test::initial;
using test::JobMaker;
using test::kAsync;
using test::kCount;
using test::OneSlice;
using test::own;
using test::same_bits;

}  // namespace

TEST_CASE("updates count by their weights, in an aggregate and on arrival", "[slice]") {
  // Three quarters of a batch, and one quarter.
  const std::vector<float> a{1, 2, 3, 4, 5};
  const std::vector<float> b{-8, 0, 8, 16, 0.5F};
  const auto expected = [&](const std::vector<float>& from, double of_a, double of_b) {
    std::vector<float> values = from;
    for (std::size_t i = 0; i < kCount; ++i) {
      values[i] = static_cast<float>(values[i] - 0.5 * (of_a * a[i] + of_b * b[i]));
    }
    return values;
  };
  const auto check = [&](const OneSlice& one, const std::vector<float>& values) {
    for (std::size_t i = 0; i < kCount; ++i) CHECK(one.values()[i] == Approx(values[i]));
  };
  SECTION("an aggregate is the weighted mean") {
    OneSlice one(JobMaker(2));
    one.push(1, 0, b, 0, 0.5F);
    one.push(0, 0, a, 0, 1.5F);
    check(one, expected(initial(), 0.75, 0.25));
  }
  SECTION("also where a member with a large share was lost before the shares were decided again") {
    JobMaker maker(3);
    OneSlice one(maker);
    one.job.leave(WorkerId(2), Clock(0));
    one.change();
    one.push(0, 0, a, 0, 0.75F);
    one.push(1, 0, b, 0, 0.25F);
    check(one, expected(initial(), 0.75, 0.25));
  }
  SECTION("on arrival each counts by its share of the batch") {
    OneSlice one(JobMaker(2, kAsync));
    one.push(0, 0, a, 0, 1.5F);
    check(one, expected(initial(), 0.75, 0));
    one.push(1, 0, b, 0, 0.5F);
    check(one, expected(initial(), 0.75, 0.25));
  }
  SECTION("clipping looks at a gradient, and not at its weight") {
    JobMaker maker(2);
    maker.solver().set_clip_gradients(1);
    OneSlice one(maker);
    one.push(0, 0, a, 4, 1.5F);
    one.push(1, 0, b, 0.5F, 0.5F);
    check(one, expected(initial(), 0.75 / 4, 0.25));
  }
  SECTION("weight decay acts once a clock") {
    for (const Slack slack : {Slack(0), kAsync}) {
      JobMaker maker(2, slack);
      maker.solver().set_weight_decay(0.125F);
      maker.solver().set_type("SGD");
      OneSlice one(maker);
      const std::vector<float> none(kCount, 0.0F);
      one.push(0, 0, none, 0, 1.5F);
      one.push(1, 0, none, 0, 0.5F);
      const std::vector<float> begin = initial();
      for (std::size_t i = 0; i < kCount; ++i) {
        const double once = slack == Slack(0) ? 1 - 0.5 * 0.125
                                              : (1 - 0.5 * 0.125 * 0.75) * (1 - 0.5 * 0.125 * 0.25);
        CHECK(one.values()[i] == Approx(begin[i] * once));
      }
    }
  }
}

TEST_CASE("weights of 1 change no bit", "[slice]") {
  for (const Slack slack : {Slack(0), kAsync}) {
    OneSlice plain(JobMaker(3, slack));
    OneSlice weighted(JobMaker(3, slack));
    for (std::int64_t clock = 0; clock < 3; ++clock) {
      for (std::uint32_t worker = 0; worker < 3; ++worker) {
        plain.push(worker, clock);
        weighted.push(worker, clock, own(worker, clock), 0, 1);
      }
    }
    CHECK(same_bits(plain.values(), weighted.values()));
  }
}

TEST_CASE("running statistics are the weighted mean of the members'", "[slice]") {
  const std::vector<float> a{1, 2, 3, 4, 5};
  const std::vector<float> b{-8, 0, 8, 16, 0.5F};
  OneSlice bsp(JobMaker(2), TableKind::kAveraged);
  bsp.push(0, 0, a, 0, 1.5F);
  bsp.push(1, 0, b, 0, 0.5F);
  OneSlice async(JobMaker(2, kAsync), TableKind::kAveraged);
  async.push(0, 0, a, 0, 1.5F);
  const std::vector<float> begin = initial();
  for (std::size_t i = 0; i < kCount; ++i) {
    CHECK(bsp.values()[i] == Approx(0.75 * a[i] + 0.25 * b[i]));
    CHECK(async.values()[i] == Approx(begin[i] + 0.75 * (a[i] - begin[i])));
  }
}

}  // namespace taut::server
