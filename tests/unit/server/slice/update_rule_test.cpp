#include <cmath>
#include <cstdint>
#include <limits>
#include <map>
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

}  // namespace

TEST_CASE("a shard divides by the members, or sums if the job requests it", "[slice]") {
  JobMaker maker(2);
  maker.state.mutable_definition()->set_reduction(pb::Job::SUM);
  OneSlice one(maker);
  one.push(0, 0);
  one.push(1, 0);
  CHECK(same_bits(one.values(), descend(initial(), {own(0, 0), own(1, 0)}, 1)));
}

TEST_CASE("weight decay applies once per clock in total", "[slice]") {
  JobMaker maker(4, kAsync);
  maker.solver().set_weight_decay(0.25F);
  OneSlice arrivals(maker);
  OneSlice aggregate([] {
    JobMaker bsp(4);
    bsp.solver().set_weight_decay(0.25F);
    return bsp;
  }());
  const std::vector<float> zero(kCount, 0.0F);
  for (std::uint32_t worker = 0; worker < 4; ++worker) {
    arrivals.push(worker, 0, zero);
    aggregate.push(worker, 0, zero);
  }
  const auto start = initial();
  for (std::size_t i = 0; i < kCount; ++i) {
    CHECK(aggregate.values()[i] == Approx(start[i] * (1 - 0.5 * 0.25)).epsilon(1e-5));
    CHECK(arrivals.values()[i] == Approx(start[i] * std::pow(1 - 0.125 / 4, 4)).epsilon(1e-5));
  }
}

TEST_CASE("the learning rate is that of the update's clock, not of its arrival", "[slice]") {
  JobMaker maker(2, kAsync);
  maker.solver().set_lr_policy("step");
  maker.solver().set_stepsize(1);
  maker.solver().set_gamma(0.5F);
  OneSlice one(maker);
  const std::vector<float> unit(kCount, 1.0F);
  const std::vector<float> zero(kCount, 0.0F);
  for (std::int64_t clock = 0; clock < 3; ++clock) one.push(0, clock, zero);
  const auto before = one.values();
  one.push(1, 0, unit);  // late, at clock 0: 0.5 / 2
  const auto after = one.values();
  for (std::size_t i = 0; i < kCount; ++i) {
    CHECK(before[i] - after[i] == Approx(0.25).margin(1e-6));
  }
}

TEST_CASE("clipping scales only the worker's own gradient", "[slice]") {
  JobMaker maker(2);
  maker.solver().set_clip_gradients(2);
  OneSlice one(maker);
  const std::vector<float> unit(kCount, 1.0F);
  one.push(0, 0, unit, 8);  // of a norm four times too large: it counts a quarter
  one.push(1, 0, unit, 2);
  const auto start = initial();
  for (std::size_t i = 0; i < kCount; ++i) {
    CHECK(one.values()[i] == Approx(start[i] - 0.5 * 1.25 / 2).margin(1e-6));
  }
}

TEST_CASE("tables of running statistics are averaged, not descended", "[slice]") {
  const std::vector<float> four(kCount, 4.0F);
  const std::vector<float> two(kCount, 2.0F);
  OneSlice bsp(JobMaker(2), TableKind::kAveraged);
  bsp.push(0, 0, four);
  bsp.push(1, 0, two);
  CHECK(bsp.values() == std::vector<float>(kCount, 3.0F));

  OneSlice async(JobMaker(2, kAsync), TableKind::kAveraged);
  const auto start = async.values();
  async.push(0, 0, four);
  for (std::size_t i = 0; i < kCount; ++i) {
    CHECK(async.values()[i] == Approx((start[i] + 4) / 2));
  }
}

TEST_CASE("clipping the gradient does not change running statistics", "[slice]") {
  const std::vector<float> four(kCount, 4.0F);
  JobMaker maker(1);
  maker.solver().set_clip_gradients(2);
  OneSlice one(maker, TableKind::kAveraged);
  one.push(0, 0, four, 8);
  CHECK(one.values() == four);
}

TEST_CASE("a refused update counts as pushed, changes nothing and is not in the divisor",
          "[slice]") {
  const float kBad =
      GENERATE(std::numeric_limits<float>::quiet_NaN(), -std::numeric_limits<float>::infinity());
  JobMaker maker(3);
  maker.solver().set_momentum(0.9F);
  maker.solver().set_weight_decay(0.01F);
  maker.state.mutable_definition()->set_on_bad_update(pb::Job::REFUSE);
  OneSlice one(maker);
  // The others' bits are what they are without it.
  JobMaker pair(2);
  pair.solver() = maker.solver();
  OneSlice without(pair);
  for (int clock = 0; clock < 3; ++clock) {
    std::vector<float> bad = test::gradient_of(2, clock, kCount);
    bad.back() = kBad;
    one.push(2, clock, bad);
    for (const std::uint32_t worker : {0U, 1U}) {
      one.push(worker, clock);
      without.push(worker, clock);
    }
    CHECK(one.slice->version() == Clock(clock + 1));
  }
  CHECK(same_bits(one.values(), without.values()));
  CHECK(one.slice->bad_updates() == std::map<WorkerId, std::uint64_t>{{WorkerId(2), 3}});
  // Where all are bad the values stay.
  const std::vector<float> before = one.values();
  for (const std::uint32_t worker : {0U, 1U, 2U}) one.push(worker, 3, std::vector(kCount, kBad));
  CHECK(one.slice->version() == Clock(4));
  CHECK(same_bits(one.values(), before));
}

TEST_CASE("on arrival a refused update changes nothing", "[slice]") {
  JobMaker maker(2, kAsync);
  maker.state.mutable_definition()->set_on_bad_update(pb::Job::QUARANTINE);
  OneSlice one(maker);
  one.push(0, 0, std::vector(kCount, std::numeric_limits<float>::infinity()));
  CHECK(one.values() == initial());
  CHECK(one.slice->done(WorkerId(0)) == Clock(1));
  one.push(0, 1);
  CHECK(one.values() != initial());
}

TEST_CASE("without a policy a bad update is applied, and the loss shows it", "[slice]") {
  OneSlice one(JobMaker(1));
  one.push(0, 0, std::vector(kCount, std::numeric_limits<float>::infinity()));
  CHECK_FALSE(std::isfinite(one.values()[0]));
  CHECK(one.slice->bad_updates().empty());
}

TEST_CASE("frozen tables take no part: they are read at clock 0 and never change", "[slice]") {
  OneSlice one(JobMaker(2), TableKind::kFrozen);
  CHECK(one.read(0, 0));
  one.push(0, 0);
  one.push(1, 0);
  CHECK(same_bits(one.values(), initial()));
  CHECK(one.read(0, 0));
}

TEST_CASE("a table's learning rate and decay are multiplied by its own factors", "[slice]") {
  TableSpec table = test::make_table(0, {static_cast<std::int64_t>(kCount)});
  table.lr_mult = 0;
  OneSlice still(JobMaker(1), table);
  still.push(0, 0);
  CHECK(still.values() == initial());

  JobMaker maker(1);
  maker.solver().set_weight_decay(0.5F);
  table.lr_mult = 1;
  table.decay_mult = 0;
  OneSlice undecayed(maker, table);
  undecayed.push(0, 0);
  CHECK(same_bits(undecayed.values(), descend(initial(), {own(0, 0)}, 1)));
}

}  // namespace taut::server
