#include <algorithm>
#include <utility>
#include <vector>

#include "proto/wire_version.hpp"
#include "tests/unit/client/played.hpp"

using Catch::Matchers::Contains;

namespace taut {
namespace {

using test::kResend;
using test::kShard;
using test::one_table;
using test::Played;

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

TEST_CASE("a host that does not serve the shard yet is greeted again soon", "[client]") {
  ClientProtocol client({JobId(7), WorkerId(0), Incarnation(100), "hash", false, Bytes(0)},
                        {kShard}, {Duration(1'000'000), Duration(200'000), Duration(10'000'000)});
  client.open(one_table(), {});
  TimePoint now(Duration(1'000'000));
  const auto greetings = [&](Duration later) {
    now = now + later;
    client.tick(now);
    return client.take_outgoing(now).size();
  };
  CHECK(greetings(Duration()) == 1);
  pb::DataHelloReply reply;
  reply.set_later(true);
  client.handle(kShard, {JobId(7), {}, {}, reply}, now);
  CHECK(greetings(Duration(199'999)) == 0);
  CHECK(greetings(Duration(1)) == 1);
  // Where that one is lost, it is as any other.
  CHECK(greetings(Duration(999'999)) == 0);
  CHECK(greetings(Duration(1'000'001)) == 1);
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

}  // namespace taut
