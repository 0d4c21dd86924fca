// A follower against a real shard, and followers that pass models on, without a network.
#include "worker/follower/follower_protocol.hpp"

#include <deque>

#include "proto/wire_version.hpp"
#include "server/shard.hpp"
#include "tests/unit/server/job_maker.hpp"

using Catch::Matchers::Contains;

namespace taut {
namespace {

constexpr std::uint64_t kSlice = 4;  // elements

FollowerIdentity identity(std::uint64_t number, bool bounded = false, std::string address = "") {
  return {JobId(7), FollowerId(number), "f" + std::to_string(number), bounded, std::move(address)};
}

/// A shard with a table of three slices, one member, and followers.
class Followed {
 public:
  Followed() : job(1) { begin(); }
  /// The shard, with initial values.
  void begin() {
    shard.emplace(ShardId(0), pool, kSlice);
    (void)shard->set_job(job.view());
    greet(PeerId(1));
    pb::OpenTables requested;
    *requested.add_tables() = to_wire(table);
    say(PeerId(1), requested);
  }
  void greet(PeerId from) {
    pb::DataHello hello;
    hello.set_wire_version(kWireVersion);
    hello.set_job_hash(job.hash());
    hello.set_term(job.state.shards(0).term());
    say(from, hello);
  }
  template <class Body>
  std::vector<server::Outgoing> say(PeerId from, const Body& body) {
    DataMessage message{JobId(7), WorkerId(0), Incarnation(100), {}};
    message.body = body;
    return shard->handle(from, message, now);
  }
  /// The member pushes a clock, all slices or one.
  void push(std::int64_t clock, const std::vector<std::uint32_t>& slices = {0, 1, 2}) {
    for (const std::uint32_t slice : slices) {
      DataItem item;
      item.kind = pb::DataItem::PUSH;
      item.slice = SliceId(slice);
      item.clock = Clock(clock);
      item.offset = slice * kSlice;
      item.count = kSlice;
      item.payload = test::frame_of(std::vector<float>(kSlice, -2));  // the rate is 0.5
      for (auto& out : say(PeerId(1), DataItems{{item}})) answers_.push_back(std::move(out));
    }
  }

  FollowerProtocol& add(const FollowerIdentity& who) {
    const auto at = static_cast<std::uint64_t>(followers_.size());
    followers_.push_back(std::make_unique<FollowerProtocol>(who, FollowerTimings{}, pool, kSlice));
    greeted_.emplace_back(100 + at);
    sources_.emplace_back();
    return *followers_.back();
  }
  /// What the coordinator says.
  void tell(std::size_t follower, std::size_t source = SIZE_MAX, bool lingers = false) {
    pb::FollowReply reply;
    reply.set_state(lingers ? pb::DONE : pb::RUNNING);
    reply.set_lingers(lingers);
    reply.set_joined(servers_know_it);
    reply.set_job_hash(job.hash());
    reply.add_shards()->set_address("shard");
    reply.mutable_shards(0)->set_term(job.state.shards(0).term());
    if (source != SIZE_MAX) {
      reply.set_source(source + 1);
      reply.set_source_address("f");
    }
    sources_[follower] = source == SIZE_MAX ? std::nullopt : std::optional(source);
    followers_[follower]->handle(reply, now);
  }
  /// Messages go to and fro until there are none.
  void settle() {
    for (bool moves = true; moves;) {
      moves = false;
      for (std::size_t i = 0; i < followers_.size(); ++i) {
        followers_[i]->tick(now);
        (void)followers_[i]->take_connections();
        for (auto& one : followers_[i]->take_outgoing()) {
          moves |= carry(i, one);
        }
      }
      for (server::Outgoing& one : std::exchange(answers_, {})) {
        for (std::size_t i = 0; i < followers_.size(); ++i) {
          if (one.to != greeted_[i]) continue;
          moves = true;
          if (const auto* batch = std::get_if<DataItems>(&one.message.body)) {
            if (drops_values && batch->items.at(0).kind == pb::DataItem::FOLLOW_VALUE) continue;
            for (const DataItem& item : batch->items) from_shard += item.payload.size();
          }
          followers_[i]->handle(ShardId(0), decoded(one.message), now);
        }
      }
    }
  }
  void wait(Duration time) {
    now = now + time;
    settle();
  }
  static DataMessage decoded(const DataMessage& message) {
    auto read = decode_data(encode(message));
    REQUIRE(read.has_value());
    return std::move(read.value());
  }
  static float value_of(const Model& model) {
    const auto floats = model.values[0].floats();
    for (const float one : floats) REQUIRE(one == floats[0]);
    return floats[0];
  }

  test::JobMaker job;
  BufferPool pool;
  std::optional<server::Shard> shard;
  TableSpec table = [] {
    TableSpec made = test::make_table(0, {12});
    made.filler = {math::Filler::Kind::kConstant, 0, 0};
    return made;
  }();
  TimePoint now{std::chrono::hours(1)};
  std::uint64_t from_shard = 0;                     // payload bytes
  std::vector<pb::Follow> reports;                  // of all
  std::uint64_t requested = 0;                      // slices, of the shard
  std::uint64_t parts = 0;                          // messages of values between followers
  bool servers_know_it = true;                      // each follower
  bool drops_values = false;                        // of the shard
  std::uint64_t lost_part = 0;                      // the number of the one that is lost, from 1
  std::vector<bool> silent = std::vector<bool>(8);  // followers that say nothing to others
  std::vector<bool> idle = std::vector<bool>(8);    // that pass nothing on, and say that they live

 private:
  bool carry(std::size_t from, const FollowerProtocol::Outgoing& one) {
    using To = FollowerProtocol::To;
    if (one.to == To::kCoordinator) {
      reports.push_back(std::get<pb::ControlMessage>(one.message).follow());
      return false;
    }
    const DataMessage message = decoded(std::get<DataMessage>(one.message));
    if (one.to == To::kShard) {
      const auto* requests = std::get_if<DataItems>(&message.body);
      if (requests != nullptr) requested += requests->items.size();
      for (auto& answer : shard->handle(greeted_[from], message, now)) {
        answers_.push_back(std::move(answer));
      }
    } else if (one.to == To::kSource) {
      const std::size_t source = sources_[from].value();
      if (!silent[source]) followers_[source]->handle_peer(PeerId(from), message);
    } else if (!silent[from]) {
      const auto* batch = std::get_if<DataItems>(&message.body);
      const bool is_part =
          batch != nullptr && batch->items.at(0).kind == pb::DataItem::FOLLOW_VALUE;
      if (is_part && (idle[from] || ++parts == lost_part)) return true;
      followers_[one.peer.value()]->handle_source(message, now);
    }
    return true;
  }

  std::vector<std::unique_ptr<FollowerProtocol>> followers_;
  std::vector<PeerId> greeted_;
  std::vector<std::optional<std::size_t>> sources_;
  std::vector<server::Outgoing> answers_;
};

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

TEST_CASE("a slice that begins anew in a later version is not mixed with the one before",
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
