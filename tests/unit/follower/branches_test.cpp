// A follower of a job whose shards are taken over: what it reads is of one branch.
#include <fmt/format.h>

#include <array>
#include <map>
#include <memory>
#include <utility>
#include <variant>
#include <vector>

#include "proto/wire_version.hpp"
#include "tests/unit/follower/followed_job.hpp"
#include "worker/follower/follower_protocol.hpp"

namespace taut {
namespace {

using test::Followed;
using test::identity;
using test::kSlice;

constexpr PeerId kReader{5};  // another follower, to which models are passed on

/// Two hosts with a shard and a slice each, as far as a follower can tell.
class TwoHosts {
  BufferPool pool_;  // the follower's, which it outlives

 public:
  struct Host {
    std::uint64_t term = 1;
    bool lives = true;
    Clock version;
    float value = 0;
    std::uint64_t branch = 0;  // that it knows of; 0: it does not say
  };

  explicit TwoHosts(std::uint64_t term = 1)
      : follower(identity(1, false, "here"), FollowerTimings{}, pool_, kSlice) {
    for (Host& host : hosts) host.term = term;
  }

  /// What the coordinator says.
  void tell(std::uint64_t source = 0) {
    pb::FollowReply reply;
    reply.set_state(pb::RUNNING);
    reply.set_job_hash("hash");
    for (std::uint32_t i = 0; i < hosts.size(); ++i) {
      pb::ShardInfo& shard = *reply.add_shards();
      shard.set_shard(i);
      shard.set_address(fmt::format("host {}, term {}", i, hosts[i].term));
      shard.set_term(hosts[i].term);
    }
    if (source > 0) {
      reply.set_source(source);
      reply.set_source_address("source");
    }
    follower.handle(reply, now_);
    settle();
  }
  /// A slice rises by a version, and what waits for it is answered.
  void advance(std::uint32_t shard, float value) {
    Host& host = hosts[shard];
    host.version = host.version.next();
    host.value = value;
    for (const DataItem& item : std::exchange(parked_[shard], {})) answer(shard, item);
    settle();
  }
  /// Another host takes the shard over, at version 0.
  void take_over(std::uint32_t shard) {
    hosts[shard] = Host{hosts[shard].term + 1, true, {}, 0, 0};
    parked_[shard].clear();
  }
  void wish(Clock version) {
    follower.wish({version}, now_);
    settle();
  }
  void wait(Duration time) {
    now_ = now_ + time;
    settle();
  }
  /// Values of a slice, from its `begin` on, of the source.
  void pass(std::uint64_t branch, std::uint32_t slice, std::uint64_t begin,
            const std::vector<float>& values) {
    DataMessage message{JobId(7), WorkerId(), Incarnation(branch), {}};
    message.body = DataItems{{value_item(slice, begin, Clock(1), values)}};
    follower.handle_source(message, now_);
    settle();
  }
  /// The other follower requests version 1 of a slice.
  void request(std::uint32_t slice) {
    DataMessage message{JobId(7), WorkerId(), Incarnation(), {}};
    DataItem item;
    item.kind = pb::DataItem::FOLLOW;
    item.slice = SliceId(slice);
    item.clock = Clock(1);
    message.body = DataItems{{item}};
    follower.handle_peer(kReader, message);
    settle();
  }

  struct Passed {
    std::uint64_t branch = 0;
    std::uint32_t slice = 0;
    float value = 0;
    bool operator==(const Passed&) const = default;
  };
  std::array<Host, 2> hosts;
  FollowerProtocol follower;
  std::vector<Passed> passed;  // to the other follower
  std::uint64_t described = 0;
  std::uint64_t reports = 0;

 private:
  static DataItem value_item(std::uint32_t slice, std::uint64_t begin, Clock version,
                             const std::vector<float>& values) {
    DataItem item;
    item.kind = pb::DataItem::FOLLOW_VALUE;
    item.slice = SliceId(slice);
    item.offset = slice * kSlice + begin;
    item.count = values.size();
    item.clock = item.version = item.done = version;
    item.payload = test::frame_of(values);
    return item;
  }
  void say(std::uint32_t shard, decltype(DataMessage::body) body) {
    DataMessage message{JobId(7), WorkerId(), Incarnation(hosts[shard].branch), std::move(body)};
    follower.handle(ShardId(shard), message, now_);
  }
  void answer(std::uint32_t shard, const DataItem& request) {
    const Host& host = hosts[shard];
    DataItem item = request;
    if (request.clock > host.version) {
      parked_[shard].push_back(request);
      item.kind = pb::DataItem::PARKED;
    } else if (request.clock < host.version) {
      item.kind = pb::DataItem::FOLLOW_PASSED;
      item.version = host.version;
    } else {
      item = value_item(request.slice.value(), 0, host.version,
                        std::vector<float>(kSlice, host.value));
    }
    say(shard, DataItems{{item}});
  }
  void answer(std::uint32_t shard, const DataMessage& message) {
    const Host& host = hosts[shard];
    if (!host.lives) return;
    if (std::holds_alternative<pb::DataHello>(message.body)) {
      pb::DataHelloReply reply;
      reply.set_wire_version(kWireVersion);
      reply.set_accepted(true);
      say(shard, reply);
    } else if (const auto* question = std::get_if<pb::Describe>(&message.body)) {
      ++described;
      pb::Description description;
      description.set_round(question->round());
      description.set_lowest(host.version.value());
      description.set_highest(host.version.value());
      if (question->tables()) *description.add_tables() = to_wire(table_);
      say(shard, description);
    } else if (const auto* batch = std::get_if<DataItems>(&message.body)) {
      for (const DataItem& item : batch->items) answer(shard, item);
    }
  }
  void settle() {
    for (bool moves = true; moves;) {
      moves = false;
      follower.tick(now_);
      (void)follower.take_connections();
      for (const FollowerProtocol::Outgoing& one : follower.take_outgoing()) {
        if (one.to == FollowerProtocol::To::kCoordinator) {
          ++reports;
          continue;
        }
        moves = true;
        const auto& message = std::get<DataMessage>(one.message);
        if (one.to == FollowerProtocol::To::kShard) answer(one.shard.value(), message);
        if (one.to == FollowerProtocol::To::kPeer) note_passed(message);
      }
    }
  }
  void note_passed(const DataMessage& message) {
    const auto* batch = std::get_if<DataItems>(&message.body);
    if (batch == nullptr) return;
    for (const DataItem& item : batch->items) {
      // Each slice is passed on in four parts; the first will do.
      const bool is_first = item.offset == item.slice.value() * kSlice;
      if (item.kind != pb::DataItem::FOLLOW_VALUE || !is_first) continue;
      passed.push_back(
          {message.incarnation.value(), item.slice.value(), test::floats_of(item.payload)[0]});
    }
  }

  TableSpec table_ = test::make_table(0, {2 * kSlice});
  TimePoint now_{std::chrono::hours(1)};
  std::map<std::uint32_t, std::vector<DataItem>> parked_;
};

}  // namespace

TEST_CASE("a slice of a lost host and one of a clock that was trained again are no model",
          "[followers]") {
  TwoHosts job;
  job.tell();
  job.advance(0, 1);
  job.wish(Clock(1));
  // The host of one shard is lost with the worker that trained clock 0; the next worker trains it
  // again, and the other shard has that before the follower hears of any of this.
  job.hosts[0].lives = false;
  job.advance(1, 2);
  job.wait(std::chrono::milliseconds(500));
  CHECK(job.follower.take() == nullptr);
  job.take_over(0);
  job.advance(0, 2);
  job.tell();
  const auto model = job.follower.take();
  REQUIRE(model);
  CHECK(model->version == Clock(1));
  CHECK(Followed::value_of(*model) == 2);
}

TEST_CASE("a lost host that still answers does not make a model whole", "[followers]") {
  TwoHosts job;
  job.tell();
  job.advance(0, 1);
  job.wish(Clock(1));
  const std::uint64_t before = job.reports;
  job.hosts[1].branch = 3;  // it has heard who serves the other shard now
  job.advance(1, 2);
  CHECK(job.follower.take() == nullptr);
  job.wait(std::chrono::milliseconds(200));
  CHECK(job.follower.take() == nullptr);
  CHECK(job.reports == before + 1);
  job.take_over(0);
  job.advance(0, 2);
  job.tell();
  const auto model = job.follower.take();
  REQUIRE(model);
  CHECK(Followed::value_of(*model) == 2);
}

TEST_CASE("a model is whole once its hosts answer a question after its last slice", "[followers]") {
  TwoHosts job;
  job.tell();
  job.advance(0, 1);
  job.wish(Clock(1));
  const std::uint64_t before = job.described;
  const std::uint64_t reports = job.reports;
  job.advance(1, 1);
  REQUIRE(job.follower.take());
  CHECK(job.described == before + 2);
  CHECK(job.reports == reports);
}

TEST_CASE("a model of shards that are never taken over is whole with its last slice",
          "[followers]") {
  TwoHosts job(0);
  job.tell();
  job.advance(0, 1);
  job.wish(Clock(1));
  job.hosts[0].lives = false;
  job.advance(1, 1);
  CHECK(job.follower.take());
}

TEST_CASE("what a source has read before a shard was taken over is not mixed with later values",
          "[followers]") {
  TwoHosts job;
  job.tell(9);
  for (const std::uint32_t shard : {0U, 1U}) job.advance(shard, 2);
  job.take_over(0);
  job.advance(0, 2);
  job.tell(9);
  job.wish(Clock(1));
  // The source learns of it later than this follower, and then begins again.
  job.pass(2, 0, 0, {1});
  job.pass(3, 0, 1, {2, 2, 2});
  job.pass(3, 1, 0, {2, 2, 2, 2});
  CHECK(job.follower.take() == nullptr);
  job.pass(3, 0, 0, {2, 2, 2, 2});
  const auto model = job.follower.take();
  REQUIRE(model);
  CHECK(Followed::value_of(*model) == 2);
}

TEST_CASE("a follower asks where the shards are when its source knows more", "[followers]") {
  TwoHosts job;
  job.tell(9);
  for (const std::uint32_t shard : {0U, 1U}) job.advance(shard, 1);
  job.wish(Clock(1));
  job.wait(std::chrono::milliseconds(200));
  const std::uint64_t before = job.reports;
  job.pass(3, 0, 0, {2, 2, 2, 2});
  job.pass(3, 1, 0, {2, 2, 2, 2});
  CHECK(job.follower.take() == nullptr);
  CHECK(job.follower.traffic().received == 0);
  CHECK(job.reports == before + 1);
}

TEST_CASE("values that are passed on name their branch, and begin again with it", "[followers]") {
  TwoHosts job;
  job.tell();
  job.advance(0, 1);
  for (const std::uint32_t slice : {0U, 1U}) job.request(slice);
  CHECK(job.passed == std::vector<TwoHosts::Passed>{{2, 0, 1}});
  job.take_over(0);
  job.advance(0, 2);
  job.passed.clear();
  job.tell();
  job.advance(1, 2);
  CHECK(job.passed == std::vector<TwoHosts::Passed>{{3, 1, 2}});
  job.request(0);
  CHECK(job.passed.back() == TwoHosts::Passed{3, 0, 2});

  const SliceLayout layout(std::vector<TableSpec>{test::make_table(0, {kSlice})},
                           std::vector<ShardId>{ShardId(0)}, kSlice);
  ModelRelay relay;
  DataItem item;
  item.clock = Clock(1);
  relay.park(kReader, item);
  const Slice& place = layout.slices()[0];
  REQUIRE(relay.take(place, Clock(1), 2).size() == 1);
  relay.restart();
  const auto anew = relay.take(place, Clock(1), 3);
  REQUIRE(anew.size() == 1);
  CHECK((anew[0].begin == 0 && anew[0].end == 3));
}

}  // namespace taut
