#include <cstdint>
#include <limits>
#include <random>
#include <vector>

#include "tests/unit/server/shard/talk.hpp"

using Catch::Matchers::Contains;

namespace taut::server {
namespace {

using test::JobMaker;
using test::kPeer;
using test::same_bits;
using test::Talk;

}  // namespace

TEST_CASE("a stale incarnation is refused with these words, and changes nothing", "[shard]") {
  Talk talk(JobMaker(2, Slack(1)));
  talk.start();
  talk.job.leave(WorkerId(1), Clock(0));
  talk.change();
  const auto before = talk.values();
  for (const auto kind : {pb::DataItem::PUSH, pb::DataItem::PUSH_READ}) {
    const DataItem refused = talk.ask(1, Talk::push(1, 0, kind));
    CHECK(refused.refusal == pb::DataItem::STALE_INCARNATION);
    CHECK_THAT(refused.reason, Contains("stale incarnation"));
  }
  CHECK(talk.ask(1, Talk::item(pb::DataItem::READ, 0)).refusal == pb::DataItem::STALE_INCARNATION);
  // Another life of a member is as stale.
  talk.job.member(WorkerId(0)).set_incarnation(55);
  CHECK(talk.ask(0, Talk::push(0, 0)).refusal == pb::DataItem::STALE_INCARNATION);
  CHECK(same_bits(talk.values(), before));
}

TEST_CASE("a reader that is no member may only take snapshots", "[shard]") {
  Talk talk(JobMaker(1));
  talk.start();
  CHECK(talk.ask(5, Talk::push(5, 0)).refusal == pb::DataItem::NO_MEMBER);
  CHECK(talk.ask(5, Talk::item(pb::DataItem::READ, 0)).refusal == pb::DataItem::NO_MEMBER);
  const DataItem snapshot = talk.ask(5, Talk::item(pb::DataItem::SNAPSHOT, 0));
  CHECK(snapshot.kind == pb::DataItem::SNAPSHOT_VALUE);
  CHECK(snapshot.version == Clock(0));
}

TEST_CASE("wrong jobs, tables, slices and ranges are each answered", "[shard]") {
  Talk talk(JobMaker(1));
  talk.start();
  const auto refusal = [&](const DataItem& item) { return talk.ask(0, item).refusal; };
  CHECK(refusal(Talk::item(pb::DataItem::READ, 0, 1)) == pb::DataItem::UNKNOWN_TABLE);
  CHECK(refusal(Talk::item(pb::DataItem::READ, 0, 0, 1)) == pb::DataItem::UNKNOWN_TABLE);
  CHECK(refusal(Talk::item(pb::DataItem::READ, 0, 0xffffffffU, 0xffffffffU)) ==
        pb::DataItem::UNKNOWN_TABLE);
  CHECK(refusal(Talk::item(pb::DataItem::SNAPSHOT, 0, 7)) == pb::DataItem::UNKNOWN_TABLE);
  for (const auto kind : {pb::DataItem::ACK, pb::DataItem::VALUE, pb::DataItem::REFUSED,
                          pb::DataItem::SNAPSHOT_VALUE}) {
    DataItem answer = Talk::item(kind, 0);
    CHECK(refusal(answer) == pb::DataItem::BAD_RANGE);
  }
  DataItem part = Talk::push(0, 0);
  part.count = 3;
  part.payload = part.payload.part(0, 12);
  CHECK(refusal(part) == pb::DataItem::BAD_RANGE);
  DataItem moved = Talk::push(0, 0);
  moved.offset = 1;
  CHECK(refusal(moved) == pb::DataItem::BAD_RANGE);
  DataItem none = Talk::push(0, 0);
  none.count = 0;
  none.payload = Frame();
  CHECK(refusal(none) == pb::DataItem::BAD_RANGE);

  DataMessage other = talk.envelope(0);
  other.job = JobId(8);
  other.body = DataItems{{Talk::item(pb::DataItem::READ, 0)}};
  const auto batch = Talk::only<DataItems>(talk.shard.handle(kPeer, other, TimePoint()), kPeer);
  CHECK(batch.items.at(0).refusal == pb::DataItem::UNKNOWN_JOB);
  // It still serves.
  CHECK(talk.ask(0, Talk::push(0, 0)).kind == pb::DataItem::ACK);
}

TEST_CASE("a slice of another shard is refused", "[shard]") {
  Talk talk(JobMaker(1, Slack(0), 2), {test::make_table(0, {4}), test::make_table(1, {4})});
  talk.start();
  CHECK(talk.ask(0, Talk::item(pb::DataItem::READ, 0, 0)).kind == pb::DataItem::VALUE);
  CHECK(talk.ask(0, Talk::item(pb::DataItem::READ, 0, 1)).refusal == pb::DataItem::UNKNOWN_TABLE);
}

TEST_CASE("each item of a peer is answered, whatever it is, and the shard continues", "[shard]") {
  const std::uint64_t seed = 5;
  CAPTURE(seed);
  std::mt19937_64 random(seed);
  Talk talk(JobMaker(3, Slack(1)), {test::make_table(0, {4}), test::make_table(1, {2, 3})});
  talk.start();
  const auto pick = [&](std::initializer_list<std::uint64_t> values) {
    return *(values.begin() + random() % values.size());
  };
  constexpr std::uint64_t kBig = std::numeric_limits<std::uint64_t>::max();
  for (int i = 0; i < 20000; ++i) {
    DataItem item;
    item.kind = static_cast<DataItem::Kind>(random() % 9);
    item.table = TableId(static_cast<std::uint32_t>(pick({0, 0, 1, 1, 2, kBig})));
    item.slice = SliceId(static_cast<std::uint32_t>(pick({0, 0, 0, 1, kBig})));
    item.offset = pick({0, 0, 0, 1, kBig});
    item.count = pick({4, 6, 0, 5, kBig});
    item.clock = Clock(static_cast<std::int64_t>(pick({0, 1, 2, 3, kBig / 2 - 1})));
    item.payload = test::frame_of(std::vector<float>(item.count <= 6 ? item.count : 0, 1.0F));
    talk.send(kPeer, static_cast<std::uint32_t>(pick({0, 0, 1, 2, 9})), {item});
  }
  CHECK(talk.ask(0, Talk::item(pb::DataItem::SNAPSHOT, 0)).kind == pb::DataItem::SNAPSHOT_VALUE);
}

}  // namespace taut::server
