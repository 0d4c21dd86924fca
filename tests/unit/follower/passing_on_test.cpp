// Followers that pass models on, without a network.
#include "worker/follower/follower_protocol.hpp"

#include <memory>
#include <vector>

#include "tests/unit/follower/followed_job.hpp"

namespace taut {
namespace {

using test::Followed;
using test::identity;

}  // namespace

TEST_CASE("followers that pass models on have the shard send each once", "[followers]") {
  Followed one;
  std::vector<FollowerProtocol*> chain;
  for (std::uint64_t i = 1; i <= 4; ++i) chain.push_back(&one.add(identity(i, false, "here")));
  for (std::size_t i = 0; i < 4; ++i) one.tell(i, i == 0 ? SIZE_MAX : i - 1);
  for (std::int64_t clock = 0; clock < 3; ++clock) {
    const std::uint64_t before = one.from_shard;
    for (FollowerProtocol* follower : chain) follower->wish({Clock(clock + 1)}, one.now);
    one.settle();
    one.push(clock);
    one.wait(std::chrono::milliseconds(200));
    for (FollowerProtocol* follower : chain) {
      const auto model = follower->take();
      REQUIRE(model);
      CHECK(model->version == Clock(clock + 1));
      CHECK(Followed::value_of(*model) == static_cast<float>(clock + 1));
    }
    CHECK(one.from_shard == before + 48);
  }
  CHECK(chain[0]->traffic().passed == 3 * 48);
  CHECK(chain[3]->traffic().passed == 0);
}

TEST_CASE("slices are passed on as they arrive", "[followers]") {
  Followed one;
  FollowerProtocol& first = one.add(identity(1, false, "here"));
  FollowerProtocol& second = one.add(identity(2, false, "here"));
  one.tell(0);
  one.tell(1, 0);
  second.wish({Clock(1)}, one.now);
  one.settle();
  one.push(0, {0, 2});
  one.settle();
  CHECK(first.traffic().passed == 32);
  CHECK(second.traffic().received == 32);
  one.push(0, {1});
  one.settle();
  CHECK(second.take());
}

TEST_CASE("parts of a slice are passed on, and one that is lost is requested again",
          "[followers]") {
  Followed one;
  std::vector<FollowerProtocol*> chain;
  for (std::uint64_t i = 1; i <= 3; ++i) chain.push_back(&one.add(identity(i, false, "here")));
  for (std::size_t i = 0; i < 3; ++i) one.tell(i, i == 0 ? SIZE_MAX : i - 1);
  chain[2]->wish({Clock(1)}, one.now);
  one.settle();
  one.lost_part = 6;  // the second of the second slice, on its way to the second follower
  one.push(0);
  one.settle();
  CHECK(one.parts == 12 + 4 + 1 + 4);  // what follows a gap is not passed on
  CHECK(chain[1]->take() == nullptr);
  CHECK(chain[2]->take() == nullptr);
  one.wait(std::chrono::seconds(1));
  one.wait(std::chrono::seconds(2));
  const auto model = chain[2]->take();
  REQUIRE(model);
  CHECK(model->version == Clock(1));
  CHECK(Followed::value_of(*model) == 1);
  CHECK(one.from_shard == 48);
}

TEST_CASE("a slice that begins again in a later version is not mixed with the one before",
          "[followers]") {
  BufferPool pool;
  const auto tables = std::make_shared<const std::vector<TableSpec>>(
      std::vector<TableSpec>{test::make_table(0, {6})});
  const std::vector<ShardId> shards{ShardId(0)};
  const SliceLayout layout(*tables, shards, 4);
  ModelRelay relay;
  DataItem item;
  item.clock = Clock(3);
  relay.park(PeerId(1), item);
  const Slice& place = layout.slices()[0];
  CHECK(relay.take(place, Clock(2), 4).empty());
  const auto first = relay.take(place, Clock(3), 2);
  REQUIRE(first.size() == 1);
  CHECK((first[0].begin == 0 && first[0].end == 2));
  CHECK(relay.take(place, Clock(3), 2).empty());
  const auto later = relay.take(place, Clock(4), 1);
  REQUIRE(later.size() == 1);
  CHECK((later[0].begin == 0 && later[0].end == 1));
  CHECK(relay.wanted() == Clock(3));
  CHECK(relay.take(place, Clock(4), 4).size() == 1);
  CHECK_FALSE(relay.wanted());

  ModelAttempt attempt(Clock(1), tables, layout, pool);
  const auto values = [](std::size_t count, float value) {
    return test::frame_of(std::vector<float>(count, value));
  };
  CHECK_FALSE(attempt.take(place, 0, 1, values(1, 1)));  // not next
  CHECK(attempt.take(place, 0, 0, values(3, 1)));
  CHECK_FALSE(attempt.take(place, 0, 0, values(3, 2)));  // here
  CHECK_FALSE(attempt.take(place, 0, 3, values(2, 1)));  // another slice's
  CHECK(attempt.missing() == 2);
  CHECK(attempt.take(place, 0, 2, values(2, 1)));  // repeated in part
  CHECK(attempt.missing() == 1);
  CHECK_FALSE(attempt.take(layout.slices()[1], 1, 3, values(1, 1)));
  CHECK(attempt.take(layout.slices()[1], 1, 4, values(2, 1)));
  CHECK(attempt.missing() == 0);
}

TEST_CASE("values for a follower leave in messages of about a mebibyte", "[followers]") {
  server::Outbox out(JobId(7));
  DataItem item;
  item.kind = pb::DataItem::FOLLOW_VALUE;
  item.payload = test::frame_of(std::vector<float>(1U << 17U));
  for (int i = 0; i < 5; ++i) out.add(PeerId(1), item);
  item.kind = pb::DataItem::VALUE;
  for (int i = 0; i < 5; ++i) out.add(PeerId(2), item);
  std::vector<std::size_t> sizes;
  for (const server::Outgoing& one : out.take()) {
    sizes.push_back(std::get<DataItems>(one.message.body).items.size());
  }
  CHECK(sizes == std::vector<std::size_t>{2, 2, 1, 5});
}

TEST_CASE("a follower whose source dies reads from the servers until it has another",
          "[followers]") {
  Followed one;
  one.add(identity(1, false, "here"));
  FollowerProtocol& second = one.add(identity(2, false, "here"));
  one.tell(0);
  one.tell(1, 0);
  one.push(0);
  one.silent[0] = true;
  second.wish({Clock(1)}, one.now);
  one.settle();
  CHECK(second.take() == nullptr);
  one.wait(std::chrono::seconds(3));
  one.wait(std::chrono::seconds(1));
  CHECK(one.reports.back().avoid() == 1);
  CHECK(second.take());
  one.wait(std::chrono::seconds(60));
  CHECK(one.reports.back().avoid() == 0);
}

TEST_CASE("a follower whose source lives and keeps models back reads from the servers",
          "[followers]") {
  Followed one;
  one.add(identity(1, false, "here"));
  FollowerProtocol& second = one.add(identity(2, false, "here"));
  one.tell(0);
  one.tell(1, 0);
  one.idle[0] = true;
  second.wish({Clock(1)}, one.now);
  // However long training takes to a version, no follower owes it.
  for (int i = 0; i < 90; ++i) one.wait(std::chrono::seconds(1));
  CHECK(one.reports.back().avoid() == 0);
  one.push(0);
  for (int i = 0; i < 25; ++i) one.wait(std::chrono::seconds(1));
  CHECK(second.take() == nullptr);
  CHECK(one.reports.back().avoid() == 0);
  for (int i = 0; i < 10; ++i) one.wait(std::chrono::seconds(1));
  CHECK(one.reports.back().avoid() == 1);
  const auto model = second.take();
  REQUIRE(model);
  CHECK(model->version == Clock(1));
}

TEST_CASE("a follower that its source draws to a version that was lost reads from the servers",
          "[followers]") {
  Followed one;
  FollowerProtocol& first = one.add(identity(1, false, "here"));
  FollowerProtocol& second = one.add(identity(2, false, "here"));
  one.tell(0);
  for (std::int64_t clock = 0; clock < 3; ++clock) one.push(clock);
  one.push(3, {0});
  first.wish({}, one.now);
  one.settle();
  REQUIRE(first.traffic().received == 16);  // the one slice of version 4
  // The shard is taken over, and version 4 is lost; the first follower is the last to hear of it.
  one.job.state.mutable_shards(0)->set_term(1);
  one.begin();
  for (std::int64_t clock = 0; clock < 3; ++clock) one.push(clock);
  one.tell(1, 0);
  second.wish({}, one.now);
  one.settle();
  REQUIRE(second.traffic().received == 16);  // that slice, in place of version 3
  one.tell(0);
  one.wait(std::chrono::seconds(1));
  const auto of_first = first.take();
  REQUIRE(of_first);
  CHECK(of_first->version == Clock(3));
  one.wait(std::chrono::seconds(1));
  // The version may be made again.
  CHECK(second.take() == nullptr);
  CHECK(one.reports.back().avoid() == 0);
  for (int i = 0; i < 4; ++i) one.wait(std::chrono::seconds(1));
  CHECK(one.reports.back().avoid() == 1);
  const auto model = second.take();
  REQUIRE(model);
  CHECK(model->version == Clock(3));
  CHECK(Followed::value_of(*model) == 3);
}

}  // namespace taut
