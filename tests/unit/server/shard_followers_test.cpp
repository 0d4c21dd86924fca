// Readers that follow a job, at one shard.
#include <cstdint>

#include "proto/wire_version.hpp"
#include "server/shard.hpp"
#include "tests/unit/server/job_maker.hpp"

namespace taut::server {
namespace {

using test::JobMaker;

constexpr PeerId kReader{50};
constexpr FollowerId kFollower{77};

/// A shard with two tables of which one is frozen, its members, and a reader that is none.
struct Followed {
  explicit Followed(JobMaker maker) : job(std::move(maker)), shard(ShardId(0), pool) {
    (void)shard.set_job(job.view());
    for (std::uint32_t worker = 0; worker < 2; ++worker) greet(peer(worker), worker);
    greet(kReader, 99);
    pb::OpenTables requested;
    for (const TableSpec& table : tables) *requested.add_tables() = to_wire(table);
    DataMessage message = envelope(0);
    message.body = requested;
    REQUIRE(shard.handle(peer(0), message, TimePoint()).size() == 1);
  }
  static PeerId peer(std::uint32_t worker) { return PeerId(worker + 1); }
  DataMessage envelope(std::uint32_t worker) {
    const bool is_member = worker < static_cast<std::uint32_t>(job.state.members_size());
    return {JobId(7),
            WorkerId(worker),
            is_member ? job.incarnation(WorkerId(worker)) : Incarnation(),
            {}};
  }
  void greet(PeerId from, std::uint32_t worker) {
    pb::DataHello hello;
    hello.set_wire_version(kWireVersion);
    hello.set_job_hash(job.hash());
    DataMessage message = envelope(worker);
    message.body = hello;
    REQUIRE(shard.handle(from, message, TimePoint()).size() == 1);
  }
  std::vector<Outgoing> send(PeerId from, std::uint32_t worker, DataItem item) {
    DataMessage message = envelope(worker);
    message.body = DataItems{{std::move(item)}};
    return shard.handle(from, std::move(message), TimePoint());
  }
  static DataItem item(DataItem::Kind kind, std::int64_t clock, std::uint32_t table = 0) {
    DataItem item;
    item.kind = kind;
    item.table = TableId(table);
    item.clock = Clock(clock);
    return item;
  }
  std::vector<Outgoing> push(std::uint32_t worker, std::int64_t clock) {
    DataItem push = item(pb::DataItem::PUSH, clock);
    push.count = 4;
    push.payload = test::frame_of(test::gradient_of(worker, clock, 4));
    return send(peer(worker), worker, std::move(push));
  }
  /// What the reader is answered, through bytes.
  static std::vector<DataItem> to(PeerId peer, const std::vector<Outgoing>& out) {
    std::vector<DataItem> items;
    for (const Outgoing& one : out) {
      if (one.to != peer) continue;
      const auto message = decode_data(encode(one.message));
      REQUIRE(message.has_value());
      if (const auto* batch = std::get_if<DataItems>(&message.value().body)) {
        items.insert(items.end(), batch->items.begin(), batch->items.end());
      }
    }
    return items;
  }
  DataItem follow(std::int64_t clock, std::uint32_t table = 0) {
    const auto items = to(kReader, send(kReader, 99, item(pb::DataItem::FOLLOW, clock, table)));
    REQUIRE(items.size() == 1);
    return items[0];
  }
  pb::ConfirmReply confirm(std::int64_t version, std::vector<Outgoing>* released = nullptr) {
    pb::Confirm confirm;
    confirm.set_follower(kFollower.value());
    confirm.set_version(version);
    DataMessage message = envelope(99);
    message.body = confirm;
    auto out = shard.handle(kReader, message, TimePoint());
    REQUIRE(!out.empty());
    const auto reply = decode_data(encode(out.front().message));
    REQUIRE(reply.has_value());
    if (released != nullptr) *released = std::move(out);
    return std::get<pb::ConfirmReply>(reply.value().body);
  }
  void bind(std::int64_t from) {
    pb::BoundedFollower& follower = *job.state.add_followers();
    follower.set_follower(kFollower.value());
    follower.set_from(from);
  }
  pb::Description describe() {
    DataMessage message = envelope(99);
    message.body = pb::Describe();
    const auto out = shard.handle(kReader, message, TimePoint());
    REQUIRE(out.size() == 1);
    return std::get<pb::Description>(out[0].message.body);
  }

  JobMaker job;
  std::vector<TableSpec> tables = {test::make_table(0, {4}),
                                   test::make_table(1, {4}, TableKind::kFrozen)};
  BufferPool pool;
  Shard shard;
};

}  // namespace

TEST_CASE("a follower gets a slice as it is of the version that it names, or when it is",
          "[shard][followers]") {
  Followed one(JobMaker(2));
  const DataItem first = one.follow(0);
  REQUIRE(first.kind == pb::DataItem::FOLLOW_VALUE);
  CHECK(first.clock == Clock(0));
  CHECK(first.payload.size() == 16);
  CHECK(one.follow(2).kind == pb::DataItem::PARKED);
  for (std::int64_t clock = 0; clock < 2; ++clock) {
    CHECK(Followed::to(kReader, one.push(0, clock)).empty());
    const auto answers = Followed::to(kReader, one.push(1, clock));
    REQUIRE(answers.size() == (clock == 1 ? 1U : 0U));
    if (clock == 0) continue;
    CHECK(answers[0].kind == pb::DataItem::FOLLOW_VALUE);
    CHECK(answers[0].version == Clock(2));
    CHECK(answers[0].done == Clock(2));
  }
  // It was answered once.
  one.push(0, 2);
  CHECK(Followed::to(kReader, one.push(1, 2)).empty());
}

TEST_CASE("a version that a slice has passed is refused without values, a frozen slice has any",
          "[shard][followers]") {
  Followed one(JobMaker(2));
  one.push(0, 0);
  one.push(1, 0);
  const DataItem passed = one.follow(0);
  CHECK(passed.kind == pb::DataItem::FOLLOW_PASSED);
  CHECK(passed.version == Clock(1));
  CHECK(passed.payload.empty());
  const DataItem frozen = one.follow(12, 1);
  CHECK(frozen.kind == pb::DataItem::FOLLOW_VALUE);
  CHECK(frozen.done == Clock::never());
  CHECK(one.describe().lowest() == 1);
  CHECK(one.describe().highest() == 1);
  CHECK_FALSE(one.describe().waits());
}

TEST_CASE("members that meet at intervals leave a slice at one version for all clocks between",
          "[shard][followers]") {
  JobMaker maker(2);
  auto& consistency = *maker.state.mutable_definition()->mutable_consistency();
  consistency.set_mode(pb::Consistency::BSP);
  consistency.mutable_periodic_averaging()->set_interval(5);
  Followed one(std::move(maker));
  CHECK(one.follow(4).kind == pb::DataItem::FOLLOW_VALUE);
  CHECK(one.follow(5).kind == pb::DataItem::PARKED);
  one.push(0, 4);
  const auto answers = Followed::to(kReader, one.push(1, 4));
  REQUIRE(answers.size() == 1);
  CHECK(answers[0].version == Clock(5));
  CHECK(answers[0].done == Clock(9));
}

TEST_CASE(
    "no read is answered further ahead of a bounded follower than the slack, until it confirms",
    "[shard][followers]") {
  JobMaker maker(2, Slack(3));
  maker.state.set_follower_slack(1);
  Followed one(std::move(maker));
  one.bind(0);
  (void)one.shard.set_job(one.job.view());
  CHECK(one.confirm(0).known());
  const auto read = [&](std::uint32_t worker, std::int64_t clock) {
    const auto items = Followed::to(
        Followed::peer(worker),
        one.send(Followed::peer(worker), worker, Followed::item(pb::DataItem::READ, clock)));
    REQUIRE(items.size() == 1);
    return items[0];
  };
  for (std::int64_t clock = 0; clock < 2; ++clock) {
    one.push(0, clock);
    one.push(1, clock);
    const DataItem answer = read(0, clock + 1);
    CHECK(answer.kind == (clock == 0 ? pb::DataItem::VALUE : pb::DataItem::PARKED));
    if (clock == 1) CHECK(answer.follower == kFollower);
  }
  std::vector<Outgoing> released;
  CHECK(one.confirm(1, &released).version() == 1);
  const auto answers = Followed::to(Followed::peer(0), released);
  REQUIRE(answers.size() == 1);
  CHECK(answers[0].kind == pb::DataItem::VALUE);
  CHECK(answers[0].clock == Clock(2));
  // One that is cut frees what waits for it.
  one.push(0, 2);
  one.push(1, 2);
  CHECK(read(1, 3).kind == pb::DataItem::PARKED);
  one.job.state.clear_followers();
  const auto freed = Followed::to(Followed::peer(1), one.shard.set_job(one.job.view()));
  REQUIRE(freed.size() == 1);
  CHECK(freed[0].kind == pb::DataItem::VALUE);
  CHECK_FALSE(one.confirm(3).known());
}

TEST_CASE("a version that cannot be confirms nothing, and members' reads continue",
          "[shard][followers][hostile]") {
  JobMaker maker(2, Slack(3));
  maker.state.set_follower_slack(1);
  Followed one(std::move(maker));
  one.bind(0);
  (void)one.shard.set_job(one.job.view());
  for (const std::int64_t version : {INT64_MAX, INT64_MIN, std::int64_t{-1}}) {
    CAPTURE(version);
    const pb::ConfirmReply reply = one.confirm(version);
    CHECK(reply.known());
    CHECK(reply.version() == 0);
  }
  const auto read = [&](std::int64_t clock) {
    const auto items =
        Followed::to(Followed::peer(0),
                     one.send(Followed::peer(0), 0, Followed::item(pb::DataItem::READ, clock)));
    REQUIRE(items.size() == 1);
    return items[0].kind;
  };
  one.push(0, 0);
  CHECK(read(1) == pb::DataItem::VALUE);
  one.push(0, 1);
  CHECK(read(2) == pb::DataItem::PARKED);
  std::vector<Outgoing> released;
  CHECK(one.confirm(1, &released).version() == 1);
  CHECK(Followed::to(Followed::peer(0), released).size() == 1);
}

TEST_CASE("a description names the branch of the job: all of its shards' terms", "[followers]") {
  JobMaker maker(2, Slack(0), 2);
  maker.state.mutable_shards(0)->set_term(1);
  maker.state.mutable_shards(1)->set_term(1);
  Followed one(std::move(maker));
  const auto branch = [&] {
    DataMessage message = one.envelope(99);
    message.body = pb::Describe();
    const auto out = one.shard.handle(kReader, message, TimePoint());
    REQUIRE(out.size() == 1);
    return out[0].message.incarnation;
  };
  CHECK(branch() == Incarnation(2));
  one.job.state.mutable_shards(1)->set_term(2);  // it is served elsewhere now
  (void)one.shard.set_job(one.job.view());
  CHECK(branch() == Incarnation(3));
}

}  // namespace taut::server
