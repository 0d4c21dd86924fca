#include <cstdint>
#include <span>
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
using test::same_bits;

}  // namespace

TEST_CASE("initial values are a pure function of seed, table name, index and filler", "[slice]") {
  OneSlice one(JobMaker(1));
  CHECK(same_bits(one.values(), initial()));
  // A slice in the middle of a table holds the table's values from its offset on.
  BufferPool pool;
  const TableSpec table = test::make_table(0, {kCount});
  const Slice part{TableId(0), SliceId(1), 2, 3, ShardId(0)};
  const SliceState middle(table, part, *one.view, pool, PushSchedule{});
  const auto whole = initial();
  CHECK(same_bits(test::floats_of(middle.snapshot(PeerId(1)).values),
                  std::span(whole).subspan(2, 3)));
}

TEST_CASE("the first initial values of clock 0 are the slice's, and no step of the rule",
          "[slice]") {
  const auto seeded = [](Slack slack) {
    JobMaker job(2, slack);
    job.state.mutable_definition()->set_external_members(true);
    return job;
  };
  const std::vector<float> first{1, 2, 3, 4, 5};
  const std::vector<float> second{9, 9, 9, 9, 9};
  SECTION("in BSP those of the lowest worker, whoever comes first") {
    OneSlice one(seeded(Slack(0)));
    CHECK(one.push(1, 0, second) == PushVerdict::kAccept);
    CHECK(one.push(0, 0, first) == PushVerdict::kAccept);
    CHECK(same_bits(one.values(), first));
    one.push(0, 1, second);
    one.push(1, 1, second);
    CHECK(same_bits(one.values(), descend(first, {second, second}, 2)));
  }
  SECTION("on arrival those that come first") {
    OneSlice one(seeded(kAsync));
    one.push(1, 0, first);
    one.push(1, 1, second);
    const std::vector<float> trained = one.values();
    CHECK(same_bits(trained, descend(first, {second}, 2)));
    one.push(0, 0, second);
    CHECK(same_bits(one.values(), trained));
  }
}

TEST_CASE("tables of the job's text start from their fillers, and their first step is clock 1's",
          "[slice]") {
  JobMaker maker(2, Slack(0));
  pb::Job& definition = *maker.state.mutable_definition();
  definition.set_external_members(true);
  pb::JobTable& named = *definition.add_tables();
  named.set_name("table0");
  named.add_shape(static_cast<std::int64_t>(kCount));
  for (pb::Member& member : *maker.state.mutable_members()) member.set_join_clock(1);
  OneSlice one(maker);
  CHECK(same_bits(one.values(), initial()));
  CHECK(one.read(0, 1));
  const std::vector<float> gradient{1, 2, 3, 4, 5};
  CHECK(one.push(0, 1, gradient) == PushVerdict::kAccept);
  CHECK(one.push(1, 1, gradient) == PushVerdict::kAccept);
  CHECK(same_bits(one.values(), descend(initial(), {gradient, gradient}, 2)));
}

}  // namespace taut::server
