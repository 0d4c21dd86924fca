// A follower against a real shard, without a network.
#include "worker/follower/follower_protocol.hpp"

#include <string>

#include "tests/unit/follower/followed_job.hpp"

using Catch::Matchers::Contains;

namespace taut {
namespace {

using test::Followed;
using test::identity;
using test::kSlice;

}  // namespace

TEST_CASE("a model is of one version although its slices are not", "[followers]") {
  Followed one;
  FollowerProtocol& follower = one.add(identity(1));
  one.tell(0);
  one.push(0);
  one.push(1, {1});  // slice 1 is ahead
  follower.wish({}, one.now);
  one.settle();
  CHECK(follower.take() == nullptr);
  CHECK_THAT(follower.waits_for(one.now), Contains("version 2 is being read, 1 of its 3 slices"));
  one.push(1, {0, 2});
  one.settle();
  const auto model = follower.take();
  REQUIRE(model);
  CHECK(model->version == Clock(2));
  CHECK(Followed::value_of(*model) == 2);
  // What was given stays as it was.
  one.push(2);
  CHECK(Followed::value_of(*model) == 2);
}

TEST_CASE("a version that is passed meanwhile is given up for a later one", "[followers]") {
  Followed one;
  FollowerProtocol& follower = one.add(identity(1));
  one.tell(0);
  one.push(0, {0});
  follower.wish({}, one.now);
  one.settle();  // version 1 is requested; slices 1 and 2 wait
  one.push(0, {1});
  one.push(1, {0, 1});
  one.push(2, {0, 1});
  one.settle();
  CHECK(follower.take() == nullptr);
  one.push(0, {2});
  one.push(1, {2});
  one.settle();
  one.push(2, {2});
  one.settle();
  const auto model = follower.take();
  REQUIRE(model);
  CHECK(Followed::value_of(*model) == static_cast<float>(model->version.value()));
}

TEST_CASE("a version that does not exist is waited for, what is near enough is not read again",
          "[followers]") {
  Followed one;
  FollowerProtocol& follower = one.add(identity(1));
  one.tell(0);
  follower.wish({Clock(2)}, one.now);
  one.settle();
  one.push(0);
  one.settle();
  CHECK(follower.take() == nullptr);
  one.push(1);
  one.settle();
  REQUIRE(follower.take());
  const std::uint64_t before = one.from_shard;
  one.push(2);
  one.push(3);
  follower.wish({Clock(0), 2}, one.now);
  one.wait(std::chrono::seconds(1));
  const auto near = follower.take();
  REQUIRE(near);
  CHECK(near->version == Clock(2));
  CHECK(one.from_shard == before);
  follower.wish({Clock(0), 1}, one.now);
  one.wait(std::chrono::seconds(1));
  const auto newer = follower.take();
  REQUIRE(newer);
  CHECK(newer->version == Clock(4));
  CHECK(one.from_shard == before + 48);
}

TEST_CASE("what is lost on its way is requested again", "[followers]") {
  Followed one;
  FollowerProtocol& follower = one.add(identity(1));
  one.tell(0);
  one.settle();
  follower.wish({}, one.now);
  for (int i = 0; i < 3; ++i) {  // nothing of it arrives
    follower.tick(one.now);
    (void)follower.take_outgoing();
    one.now = one.now + std::chrono::milliseconds(300);
  }
  one.wait(std::chrono::seconds(2));
  one.wait(std::chrono::seconds(2));
  CHECK(follower.take());
}

TEST_CASE("what arrives slowly is requested once", "[followers]") {
  Followed one;
  FollowerProtocol& follower = one.add(identity(1));
  one.tell(0);
  follower.wish({Clock(1)}, one.now);
  one.settle();
  CHECK(one.requested == 3);
  for (std::uint32_t slice = 0; slice < 3; ++slice) {
    for (int i = 0; i < 10; ++i) one.wait(std::chrono::seconds(1));
    one.push(0, {slice});
  }
  one.settle();
  CHECK(follower.take());
  CHECK(one.requested == 3);
}

TEST_CASE("a bounded follower joins with what it has, and confirms what its program takes",
          "[followers]") {
  Followed one;
  FollowerProtocol& follower = one.add(identity(1, true));
  one.push(0);
  one.settle();
  REQUIRE(!one.reports.empty());
  CHECK_FALSE(one.reports.back().bounded());  // training would wait for its first version
  one.tell(0);
  pb::BoundedFollower& bound = *one.job.state.add_followers();
  bound.set_follower(1);
  (void)one.shard->set_job(one.job.view());
  one.settle();
  follower.wish({}, one.now);
  one.wait(std::chrono::seconds(1));
  const auto confirmed = [&] {
    pb::Confirm question;
    question.set_follower(1);
    question.set_version(0);
    const auto out = one.say(PeerId(1), question);
    return std::get<pb::ConfirmReply>(out.front().message.body).version();
  };
  CHECK(confirmed() == 0);
  REQUIRE(follower.take());
  one.settle();
  CHECK(confirmed() == 1);
}

TEST_CASE("a bounded follower's first model is of a time when training waits for it",
          "[followers]") {
  Followed one;
  FollowerProtocol& follower = one.add(identity(1, true));
  one.push(0);
  one.servers_know_it = false;
  one.tell(0);
  follower.wish({}, one.now);
  for (int i = 0; i < 2; ++i) one.wait(std::chrono::seconds(1));
  CHECK(one.reports.back().bounded());
  CHECK(one.reports.back().version() == 1);
  for (std::int64_t clock = 1; clock < 6; ++clock) one.push(clock);
  CHECK(follower.take() == nullptr);
  one.servers_know_it = true;
  one.tell(0);
  for (int i = 0; i < 2; ++i) one.wait(std::chrono::seconds(1));
  const auto model = follower.take();
  REQUIRE(model);
  CHECK(model->version == Clock(6));
}

TEST_CASE("a bounded follower of a job that has not started joins at once", "[followers]") {
  Followed one;
  FollowerProtocol& follower = one.add(identity(1, true));
  pb::FollowReply reply;
  reply.set_state(pb::SUBMITTED);
  follower.handle(reply, one.now);
  one.wait(std::chrono::seconds(1));
  CHECK(one.reports.back().bounded());
}

TEST_CASE("a newest version that is lost when a shard is taken over is not waited for",
          "[followers]") {
  Followed one;
  FollowerProtocol& follower = one.add(identity(1));
  one.tell(0);
  for (std::int64_t clock = 0; clock < 3; ++clock) one.push(clock);
  follower.wish({}, one.now);
  follower.tick(one.now);  // it greets
  one.settle();
  REQUIRE(follower.take()->version == Clock(3));
  one.push(3);
  follower.wish({}, one.now);
  one.drops_values = true;
  one.wait(std::chrono::seconds(1));
  REQUIRE(follower.take() == nullptr);
  // Version 4 is lost with its host and the member that made it.
  one.drops_values = false;
  one.job.state.mutable_shards(0)->set_term(1);
  one.begin();
  for (std::int64_t clock = 0; clock < 3; ++clock) one.push(clock);
  one.tell(0);
  for (int i = 0; i < 3; ++i) one.wait(std::chrono::seconds(1));
  const auto model = follower.take();
  REQUIRE(model);
  CHECK(model->version == Clock(3));
}

TEST_CASE("a job that is over gives its last version, and then says so", "[followers]") {
  Followed one;
  FollowerProtocol& follower = one.add(identity(1));
  one.tell(0);
  one.push(0);
  one.settle();
  one.tell(0, SIZE_MAX, true);
  one.wait(std::chrono::seconds(1));
  CHECK(follower.is_over());
  CHECK(one.reports.back().leaves());
  follower.wish({}, one.now);
  CHECK_FALSE(follower.failure());
  const auto last = follower.take();
  REQUIRE(last);
  CHECK(last->version == Clock(1));
  follower.wish({}, one.now);
  CHECK(follower.take() == nullptr);
  REQUIRE(follower.failure());
  CHECK(follower.failure()->code == ErrorCode::kClosed);
  CHECK(follower.failure()->message ==
        "job 7 is over: it is done; the last version that was read is 1");
}

TEST_CASE("a job with a table by rows is not followed, and the follower says why",
          "[follower][rows]") {
  Followed followed;
  FollowerProtocol follower(identity(1), FollowerTimings{}, followed.pool, kSlice);
  pb::FollowReply reply;
  reply.set_state(pb::RUNNING);
  reply.set_joined(true);
  reply.set_job_hash(followed.job.hash());
  reply.add_shards()->set_address("shard");
  follower.handle(reply, followed.now);
  TableSpec table = test::make_table(0, {12, 2});
  table.rows = RowTable{4, 0, 0};
  pb::Description description;
  *description.add_tables() = to_wire(table);
  DataMessage message{JobId(7), WorkerId(), Incarnation(), {}};
  message.body = description;
  follower.handle(ShardId(0), message, followed.now);
  REQUIRE(follower.failure());
  CHECK(follower.failure()->message.find("table \"table0\" is kept by rows") != std::string::npos);
}

}  // namespace taut
