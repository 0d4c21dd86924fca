#include "worker/client/client_protocol.hpp"

#include <cstring>

#include "proto/wire_version.hpp"
#include "tests/unit/server/job_maker.hpp"

using Catch::Matchers::Contains;

namespace taut {
namespace {

using test::same_bits;

constexpr Duration kResend{1'000'000};
constexpr ShardId kShard{0};

std::vector<TableSpec> one_table() {
  return {test::make_table(0, {4})};
}

/// A client of one shard, which the test plays.
struct Played {
  /// max_kept  of updates for backups; 0: the job has none
  explicit Played(std::vector<TableSpec> tables = one_table(), const Compression& compression = {},
                  Bytes max_kept = Bytes(0))
      : client({JobId(7), WorkerId(0), Incarnation(100), "hash", max_kept.value() > 0, max_kept},
               {kShard}, kResend) {
    client.open(std::move(tables), compression);
  }
  void handle(decltype(DataMessage::body) body) {
    client.handle(kShard, {JobId(7), {}, {}, std::move(body)}, now);
  }
  void accept_hello() {
    pb::DataHelloReply reply;
    reply.set_accepted(true);
    handle(reply);
  }
  void accept_open() {
    pb::OpenTablesReply reply;
    reply.set_accepted(true);
    handle(reply);
  }
  void start() {
    take();
    accept_hello();
    take();
    accept_open();
    REQUIRE(client.ready());
  }
  void greet_again() {
    pb::DataHelloReply reply;
    reply.set_greet_again(true);
    handle(reply);
  }
  std::vector<DataMessage> take() {
    std::vector<DataMessage> messages;
    for (auto& [to, message] : client.take_outgoing(now)) messages.push_back(std::move(message));
    return messages;
  }
  std::vector<DataItem> take_items() {
    std::vector<DataItem> items;
    for (DataMessage& message : take()) {
      REQUIRE(std::holds_alternative<DataItems>(message.body));
      for (DataItem& item : std::get<DataItems>(message.body).items) items.push_back(item);
    }
    return items;
  }
  /// The kinds and clocks of what is sent now, e.g. "PUSH 3, READ 4".
  std::string sent() {
    std::string text;
    for (const DataItem& item : take_items()) {
      if (!text.empty()) text += ", ";
      text += pb::DataItem::Kind_Name(item.kind) + " " + std::to_string(item.clock.value());
    }
    return text;
  }
  void pass(Duration time) {
    now = now + time;
    client.tick(now);
  }
  void push(std::int64_t clock) {
    client.push(TableId(0), {Clock(clock), test::frame_of(test::gradient_of(0, clock, 4)), 0});
  }
  void read(std::int64_t clock) { client.read(TableId(0), Clock(clock), into); }
  void answer(DataItem::Kind kind, std::int64_t clock, std::int64_t done, std::int64_t version = 0,
              float value = 1) {
    DataItem item;
    item.kind = kind;
    item.clock = Clock(clock);
    item.done = Clock(done);
    item.version = Clock(version);
    if (kind == pb::DataItem::VALUE || kind == pb::DataItem::SNAPSHOT_VALUE) {
      item.payload = test::frame_of(std::vector<float>(4, value));
    }
    handle(DataItems{{item}});
  }
  void refuse(DataItem::Refusal why, std::int64_t clock, std::int64_t done = 0) {
    DataItem item;
    item.kind = pb::DataItem::REFUSED;
    item.clock = Clock(clock);
    item.done = Clock(done);
    item.refusal = why;
    item.reason = "the reason";
    handle(DataItems{{item}});
  }

  std::vector<float> into = std::vector<float>(4, -1.0F);
  TimePoint now;
  ClientProtocol client;
};

}  // namespace

TEST_CASE("a shard is silent from its last word on, and only while it owes one",
          "[client-protocol]") {
  Played played;
  REQUIRE(played.client.longest_silence());
  CHECK_FALSE(played.client.longest_silence()->since);
  played.start();
  CHECK_FALSE(played.client.longest_silence());
  played.read(1);
  played.take();
  const TimePoint heard = played.now;
  played.pass(kResend / 2);
  REQUIRE(played.client.longest_silence());
  CHECK(played.client.longest_silence()->shard == kShard);
  CHECK(played.client.longest_silence()->since == heard);
  CHECK_FALSE(played.client.read_waits_for(TableId(0)));
  DataItem parked;
  parked.kind = pb::DataItem::PARKED;
  parked.clock = Clock(1);
  parked.waits_for = WorkerId(3);
  played.handle(DataItems{{parked}});
  CHECK(played.client.longest_silence()->since == played.now);
  CHECK(played.client.read_waits_for(TableId(0)) == WorkerId(3));
  played.answer(pb::DataItem::VALUE, 1, 0, 1);
  CHECK_FALSE(played.client.longest_silence());
}

TEST_CASE("a client greets, opens its tables, and only then sends items", "[client]") {
  Played played;
  played.read(0);
  auto messages = played.take();
  REQUIRE(messages.size() == 1);
  const auto& hello = std::get<pb::DataHello>(messages[0].body);
  CHECK(hello.wire_version() == kWireVersion);
  CHECK(hello.build() == build_name());
  CHECK(hello.role() == "worker");
  CHECK(hello.job_hash() == "hash");
  CHECK(messages[0].incarnation == Incarnation(100));
  CHECK(played.take().empty());
  played.accept_hello();
  messages = played.take();
  REQUIRE(messages.size() == 1);
  const auto& open = std::get<pb::OpenTables>(messages[0].body);
  CHECK(open.tables().empty());
  CHECK(open.tables_hash() == tables_hash(one_table()));
  CHECK_FALSE(played.client.ready());
  played.accept_open();
  CHECK(played.client.ready());
  CHECK(played.sent() == "READ 0");
}

TEST_CASE("no item is sent before every shard has opened the tables, but then while one is away",
          "[client]") {
  // A shard that has not opened them reports that a member holds its join clock there.
  const ShardId other(1);
  ClientProtocol client({JobId(7), WorkerId(0), Incarnation(100), "hash"}, {kShard, other},
                        kResend);
  client.open(one_table());
  TimePoint now;
  const auto handle = [&](ShardId shard, auto body) {
    client.handle(shard, {JobId(7), {}, {}, std::move(body)}, now);
  };
  const auto open = [&](ShardId shard) {
    pb::DataHelloReply greeted;
    greeted.set_accepted(true);
    handle(shard, greeted);
    (void)client.take_outgoing(now);
    pb::OpenTablesReply opened;
    opened.set_accepted(true);
    handle(shard, opened);
  };
  (void)client.take_outgoing(now);
  open(kShard);
  client.push(TableId(0), {Clock(0), test::frame_of(test::gradient_of(0, 0, 4)), 0});
  CHECK(client.take_outgoing(now).empty());
  open(other);
  CHECK(client.take_outgoing(now).size() == 1);
  pb::DataHelloReply away;
  away.set_greet_again(true);
  handle(other, away);
  client.push(TableId(0), {Clock(1), test::frame_of(test::gradient_of(0, 1, 4)), 0});
  const auto sent = client.take_outgoing(now);
  CHECK(std::ranges::count_if(sent, [](const auto& one) {
          return one.to == kShard && std::holds_alternative<DataItems>(one.message.body);
        }) == 1);
}

TEST_CASE("greetings and openings that are not answered are sent again", "[client]") {
  Played played;
  CHECK(played.take().size() == 1);
  played.pass(kResend - Duration(1));
  CHECK(played.take().empty());
  played.pass(Duration(1));
  CHECK(std::holds_alternative<pb::DataHello>(played.take().at(0).body));
  played.accept_hello();
  CHECK(played.take().size() == 1);
  played.pass(kResend);
  CHECK(std::holds_alternative<pb::OpenTables>(played.take().at(0).body));
}

TEST_CASE("a client lists its tables to a shard that has not opened them", "[client]") {
  Played played;
  (void)played.take();
  played.accept_hello();
  (void)played.take();
  pb::OpenTablesReply requested;
  requested.set_name_tables(true);
  played.handle(requested);
  const auto messages = played.take();
  REQUIRE(messages.size() == 1);
  const auto& open = std::get<pb::OpenTables>(messages[0].body);
  REQUIRE(open.tables_size() == 1);
  CHECK(from_wire(open.tables(0)).value() == one_table()[0]);
  // A copy of the same answer, which was late.
  played.handle(requested);
  CHECK(played.take().empty());
  played.pass(kResend);
  CHECK(std::get<pb::OpenTables>(played.take().at(0).body).tables_size() == 1);
  played.accept_open();
  CHECK(played.client.ready());
  // Another host, or the same one after it forgot: from the beginning.
  played.greet_again();
  (void)played.take();
  played.accept_hello();
  CHECK(std::get<pb::OpenTables>(played.take().at(0).body).tables().empty());
}

TEST_CASE("a refused hello or opening ends the client with the shard's words", "[client]") {
  Played hello;
  pb::DataHelloReply refused;
  refused.set_reason("wire version 1 does not match 9");
  hello.handle(refused);
  REQUIRE(hello.client.failure());
  CHECK(hello.client.failure()->code == ErrorCode::kMismatch);
  CHECK_THAT(hello.client.failure()->message, Contains("does not match 9") && Contains("shard 0"));
  Played open;
  open.take();
  open.accept_hello();
  pb::OpenTablesReply closed;
  closed.set_reason("opened was this, you name that");
  open.handle(closed);
  REQUIRE(open.client.failure());
  CHECK_THAT(open.client.failure()->message, Contains("opened was this"));
}

TEST_CASE("a push and the read of the next clock travel as one item", "[client]") {
  Played played;
  played.start();
  played.read(4);
  played.push(3);
  const auto items = played.take_items();
  REQUIRE(items.size() == 1);
  CHECK(items[0].kind == pb::DataItem::PUSH_READ);
  CHECK(items[0].clock == Clock(3));
  CHECK(items[0].count == 4);
  CHECK(same_bits(test::floats_of(items[0].payload), test::gradient_of(0, 3, 4)));
  played.push(4);
  CHECK(played.sent() == "PUSH 4");
}

TEST_CASE("an update is kept until it is acknowledged, and resent after a timeout", "[client]") {
  Played played;
  played.start();
  played.push(0);
  CHECK(played.sent() == "PUSH 0");
  CHECK(played.client.unacknowledged() == 1);
  played.pass(kResend - Duration(1));
  CHECK(played.sent().empty());
  played.pass(Duration(1));
  CHECK(played.sent() == "PUSH 0");
  played.answer(pb::DataItem::ACK, 0, 1);
  CHECK(played.client.unacknowledged() == 0);
  played.pass(kResend * 2);
  CHECK(played.sent().empty());
}

TEST_CASE("a value acknowledges every update below its done", "[client]") {
  Played played;
  played.start();
  played.push(0);
  played.push(1);
  played.read(2);
  static_cast<void>(played.sent());
  played.answer(pb::DataItem::VALUE, 2, 2, 1, 5);
  CHECK(played.client.unacknowledged() == 0);
  const auto completed = played.client.take_completed();
  REQUIRE(completed.size() == 1);
  CHECK(completed[0].clock == Clock(2));
  CHECK(completed[0].version == Clock(1));
  CHECK(played.into == std::vector<float>(4, 5.0F));
}

TEST_CASE("a late or repeated answer to a read that is over is ignored", "[client]") {
  Played played;
  played.start();
  played.read(0);
  static_cast<void>(played.sent());
  played.answer(pb::DataItem::VALUE, 0, 0, 0, 5);
  CHECK(played.client.take_completed().size() == 1);
  played.read(1);
  played.answer(pb::DataItem::VALUE, 0, 0, 0, 6);
  CHECK(played.client.take_completed().empty());
  CHECK(played.into == std::vector<float>(4, 5.0F));
  played.answer(pb::DataItem::VALUE, 1, 1, 1, 7);
  played.answer(pb::DataItem::VALUE, 1, 1, 1, 8);
  CHECK(played.client.take_completed().size() == 1);
  CHECK(played.into == std::vector<float>(4, 7.0F));
}

TEST_CASE("a table's version is the minimum over its slices", "[client]") {
  const auto count = static_cast<std::int64_t>(2 * SliceLayout::kSliceElements + 1);
  Played played({test::make_table(0, {count})});
  played.into.assign(static_cast<std::size_t>(count), -1.0F);
  played.start();
  played.read(9);
  const auto items = played.take_items();
  REQUIRE(items.size() == 3);
  const std::int64_t versions[] = {7, 5, 6};
  for (std::size_t i = 0; i < 3; ++i) {
    CHECK(played.client.take_completed().empty());
    DataItem item = items[i];
    item.kind = pb::DataItem::VALUE;
    item.version = Clock(versions[i]);
    item.payload = test::frame_of(std::vector<float>(item.count, static_cast<float>(i)));
    played.handle(DataItems{{item}});
  }
  const auto completed = played.client.take_completed();
  REQUIRE(completed.size() == 1);
  CHECK(completed[0].version == Clock(5));
  CHECK_FALSE(completed[0].uniform);
  CHECK(played.into.front() == 0);
  CHECK(played.into[SliceLayout::kSliceElements] == 1);
  CHECK(played.into.back() == 2);
}

TEST_CASE("a newer read of a table takes the place of the one under way", "[client]") {
  Played played;
  played.start();
  played.read(0);
  static_cast<void>(played.sent());
  std::vector<float> other(4, -2.0F);
  played.client.read(TableId(0), Clock(1), other);
  CHECK(played.sent() == "READ 1");
  played.answer(pb::DataItem::VALUE, 0, 0, 0, 3);
  CHECK(played.client.take_completed().empty());
  CHECK(played.into == std::vector<float>(4, -1.0F));
  played.answer(pb::DataItem::VALUE, 1, 1, 1, 4);
  CHECK(other == std::vector<float>(4, 4.0F));
}

TEST_CASE("a snapshot and a read of the same table do not disturb each other", "[client]") {
  Played played;
  played.start();
  std::vector<float> copy(4);
  played.read(2);
  played.client.snapshot(TableId(0), copy);
  CHECK(played.sent() == "READ 2, SNAPSHOT 0");
  played.answer(pb::DataItem::SNAPSHOT_VALUE, 0, 0, 1, 8);
  const auto completed = played.client.take_completed();
  REQUIRE(completed.size() == 1);
  CHECK(completed[0].snapshot);
  CHECK(completed[0].uniform);
  CHECK(completed[0].version == Clock(1));
  CHECK(copy == std::vector<float>(4, 8.0F));
  CHECK(played.into == std::vector<float>(4, -1.0F));
  played.answer(pb::DataItem::VALUE, 2, 2, 2, 9);
  CHECK(played.into == std::vector<float>(4, 9.0F));
}

TEST_CASE("when a connection breaks, everything that was under way is sent on the new one",
          "[client]") {
  Played played;
  played.start();
  std::vector<float> copy(4);
  played.push(0);
  played.push(1);
  played.read(2);
  played.client.snapshot(TableId(0), copy);
  CHECK(played.sent() == "PUSH 0, PUSH_READ 1, SNAPSHOT 0");
  played.greet_again();
  CHECK_FALSE(played.client.ready());
  played.push(2);
  CHECK(std::holds_alternative<pb::DataHello>(played.take().at(0).body));
  // Each message on the unknown connection is answered so; greeting once is enough.
  played.greet_again();
  CHECK(played.take().empty());
  played.accept_hello();
  played.take();
  played.accept_open();
  CHECK(played.sent() == "PUSH 0, PUSH_READ 1, PUSH 2, SNAPSHOT 0");
}

TEST_CASE("updates that the shard misses are sent again, in order", "[client]") {
  Played played;
  played.start();
  for (std::int64_t clock = 0; clock < 4; ++clock) played.push(clock);
  static_cast<void>(played.sent());
  played.refuse(pb::DataItem::OUT_OF_ORDER, 3, 2);
  CHECK(played.sent() == "PUSH 2, PUSH 3");
  CHECK_FALSE(played.client.failure());
}

TEST_CASE("a shard that expects an update which it acknowledged before is a mismatch", "[client]") {
  Played played;
  played.start();
  played.push(0);
  static_cast<void>(played.sent());
  played.answer(pb::DataItem::ACK, 0, 1);
  // The shard has lost its memory: it greets again, and expects clock 0 once more.
  played.greet_again();
  played.push(1);
  played.take();
  played.accept_hello();
  played.take();
  played.accept_open();
  CHECK(played.sent() == "PUSH 1");
  played.refuse(pb::DataItem::OUT_OF_ORDER, 1, 0);
  REQUIRE(played.client.failure());
  CHECK(played.client.failure()->code == ErrorCode::kMismatch);
}

TEST_CASE("a first update whose read was requested before it is sent again from its clock on",
          "[client]") {
  // As initial values are: they are pushed at clock 0, unseen, after the read of clock 1.
  Played played;
  played.start();
  played.read(1);
  played.push(0);
  REQUIRE(played.sent() == "PUSH_READ 0");
  played.push(1);
  REQUIRE(played.sent() == "PUSH 1");
  played.refuse(pb::DataItem::OUT_OF_ORDER, 1, 0);
  CHECK(!played.client.failure());
  CHECK(played.sent() == "PUSH 0, PUSH 1");
}

TEST_CASE("a late refusal of an update that was acknowledged meanwhile changes nothing",
          "[client]") {
  Played played;
  played.start();
  played.push(0);
  played.push(1);
  static_cast<void>(played.sent());
  // Clock 1 overtook clock 0; both came again and were accepted before the refusal arrived.
  played.answer(pb::DataItem::ACK, 1, 2);
  played.refuse(pb::DataItem::OUT_OF_ORDER, 1, 0);
  CHECK_FALSE(played.client.failure());
  played.push(2);
  CHECK(played.sent() == "PUSH 2");
}

TEST_CASE("a held update is sent again after a while, and the read with it", "[client]") {
  Played played;
  played.start();
  played.read(4);
  played.push(3);
  CHECK(played.sent() == "PUSH_READ 3");
  played.refuse(pb::DataItem::HELD, 3);
  CHECK(played.sent().empty());
  CHECK_FALSE(played.client.failure());
  // Well before anything else would be sent again.
  played.pass(kResend / 10);
  CHECK(played.sent() == "PUSH_READ 3");
}

TEST_CASE("after a held update nothing is sent that the shard would refuse", "[client]") {
  Played played;
  played.start();
  played.push(3);
  static_cast<void>(played.sent());
  played.refuse(pb::DataItem::HELD, 3);
  played.push(4);
  CHECK(played.sent().empty());
  played.pass(kResend / 10);
  CHECK(played.sent() == "PUSH 3, PUSH 4");
}

TEST_CASE("a stale incarnation ends the client as stale; other refusals as a mismatch",
          "[client]") {
  Played stale;
  stale.start();
  stale.push(0);
  stale.refuse(pb::DataItem::STALE_INCARNATION, 0);
  REQUIRE(stale.client.failure());
  CHECK(stale.client.failure()->code == ErrorCode::kStale);
  CHECK(stale.client.failure()->message == "the reason");
  for (const auto why : {pb::DataItem::UNKNOWN_JOB, pb::DataItem::UNKNOWN_TABLE,
                         pb::DataItem::NO_MEMBER, pb::DataItem::BAD_RANGE}) {
    Played other;
    other.start();
    other.refuse(why, 0);
    REQUIRE(other.client.failure());
    CHECK(other.client.failure()->code == ErrorCode::kMismatch);
    CHECK_THAT(other.client.failure()->message, Contains("the reason"));
  }
}

TEST_CASE("values are read as the job's compression says, and snapshots as they are",
          "[client][compression]") {
  Compression compression;
  const math::Encoding half{math::Codec::kFloat16};
  compression.add_pull(1, half);
  const auto answer = [](Played& played, DataItem::Kind kind, const math::Encoding& encoding) {
    DataItem item;
    item.kind = kind;
    item.count = 4;
    item.encoding = encoding;
    std::string bytes(math::encoded_bytes(encoding, 4), '\0');
    math::encode(encoding, std::vector<float>{1, -2.5F, 1024.3F, 0}, {},
                 std::as_writable_bytes(std::span(bytes)).data());
    item.payload = Frame::copy_of(bytes);
    played.handle(DataItems{{item}});
  };
  Played played(one_table(), compression);
  played.start();
  played.read(0);
  answer(played, pb::DataItem::VALUE, half);
  CHECK(played.client.take_completed().size() == 1);
  CHECK(played.into == std::vector<float>{1, -2.5F, 1024, 0});
  played.client.snapshot(TableId(0), played.into);
  answer(played, pb::DataItem::SNAPSHOT_VALUE, {});
  CHECK(played.client.take_completed().size() == 1);
  CHECK(played.into == std::vector<float>{1, -2.5F, 1024.3F, 0});
  CHECK_FALSE(played.client.failure());
  // Who takes values gets them decoded: `into` need not be memory that may be written.
  std::vector<float> taken;
  played.client.on_values([&](std::span<float> at, const Frame& values) {
    CHECK(at.data() == played.into.data());
    taken.resize(values.size() / sizeof(float));
    std::memcpy(taken.data(), values.bytes().data(), values.size());
  });
  played.into.assign(4, -1.0F);
  played.read(0);
  answer(played, pb::DataItem::VALUE, half);
  CHECK(taken == std::vector<float>{1, -2.5F, 1024, 0});
  CHECK(played.into == std::vector<float>(4, -1.0F));
  CHECK(played.client.take_completed().size() == 1);
  // A shard that encodes as another job would.
  played.read(1);
  answer(played, pb::DataItem::VALUE, {math::Codec::kBfloat16});
  CHECK_FALSE(played.client.failure());  // of clock 0: late
  Played other(one_table(), compression);
  other.start();
  other.read(0);
  answer(other, pb::DataItem::VALUE, {math::Codec::kBfloat16});
  REQUIRE(other.client.failure());
  CHECK_THAT(other.client.failure()->message,
             Contains("8 bytes of BF16 arrived, 8 of FP16 were expected"));
}

TEST_CASE("answers that no shard should give are ignored or end the client, never more",
          "[client]") {
  Played played;
  played.start();
  played.read(0);
  DataItem item;
  item.kind = pb::DataItem::VALUE;
  item.table = TableId(9);
  played.handle(DataItems{{item}});
  item.table = TableId(0);
  item.slice = SliceId(1);
  played.handle(DataItems{{item}});
  played.client.handle(ShardId(5), {JobId(7), {}, {}, DataItems{{item}}}, played.now);
  played.client.handle(kShard, {JobId(8), {}, {}, DataItems{{item}}}, played.now);
  played.handle(pb::DataHello());
  played.answer(pb::DataItem::PUSH, 0, 0);
  CHECK_FALSE(played.client.failure());
  item.slice = SliceId(0);
  item.payload = test::frame_of({1, 2, 3});
  played.handle(DataItems{{item}});
  REQUIRE(played.client.failure());
  CHECK_THAT(played.client.failure()->message, Contains("12 bytes") && Contains("16"));
  CHECK(played.into == std::vector<float>(4, -1.0F));
}

TEST_CASE("updates kept for backups beyond half of their limit are settled in every slice",
          "[client]") {
  // Two slices with updates of 16 bytes: one of each is half of the limit.
  const std::vector<TableSpec> tables{test::make_table(0, {4}), test::make_table(1, {4})};
  Played played(tables, {}, Bytes(64));
  played.start();
  const auto answer = [&played](std::uint32_t table, std::int64_t done, std::int64_t stable) {
    DataItem item;
    item.kind = pb::DataItem::ACK;
    item.table = TableId(table);
    item.done = Clock(done);
    item.stable = Clock(stable);
    played.handle(DataItems{{item}});
  };
  for (const std::uint32_t table : {0U, 1U}) {
    played.client.push(TableId(table), {Clock(0), test::frame_of(test::gradient_of(0, 0, 4)), 0});
  }
  CHECK(played.sent() == "PUSH 0, PUSH 0");
  answer(0, 1, 0);
  answer(1, 1, 0);
  CHECK(played.sent().empty());  // 32 bytes are kept
  played.client.push(TableId(1), {Clock(1), test::frame_of(test::gradient_of(0, 1, 4)), 0});
  CHECK(played.sent() == "PUSH 1");
  answer(1, 2, 0);
  CHECK(played.sent() == "SETTLE 1, SETTLE 2");  // table 0 too, which has no answer to come
  CHECK_FALSE(played.client.longest_silence());
  answer(0, 1, 1);
  answer(1, 2, 2);
  CHECK(played.client.unsettled() == 0);
  CHECK(played.sent().empty());
}

TEST_CASE("no message has more items than it may, however much is sent at once", "[client]") {
  Played played;
  played.start();
  const auto clocks = static_cast<std::int64_t>(2 * DataItems::kMaxItems + 10);
  for (std::int64_t clock = 0; clock < clocks; ++clock) played.push(clock);
  std::int64_t next = 0;
  for (const DataMessage& message : played.take()) {
    const auto& items = std::get<DataItems>(message.body).items;
    CHECK(items.size() <= DataItems::kMaxItems);
    for (const DataItem& item : items) CHECK(item.clock == Clock(next++));
  }
  CHECK(next == clocks);
}

}  // namespace taut
