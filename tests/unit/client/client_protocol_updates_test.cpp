#include <cstdint>
#include <vector>

#include "tests/unit/client/played.hpp"

namespace taut {
namespace {

using test::kResend;
using test::kShard;
using test::Played;
using test::same_bits;

constexpr Duration kMs{1'000};
// Until a round trip is measured, at least, and at most.
const ResendPolicy kMeasured{1000 * kMs, 200 * kMs, 10'000 * kMs};

}  // namespace

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

TEST_CASE("how soon greetings are answered says nothing of updates", "[client]") {
  Played played(test::one_table(), {}, Bytes(0), kMeasured);
  played.take();
  played.pass(kMs);
  played.accept_hello();
  played.take();
  played.pass(kMs);
  played.accept_open();
  played.push(0);
  CHECK(played.sent() == "PUSH 0");
  played.pass(999 * kMs);
  CHECK(played.sent().empty());
  played.pass(kMs);
  CHECK(played.sent() == "PUSH 0");
}

TEST_CASE("a read waits twice as long for its answer as an update", "[client]") {
  Played played(test::one_table(), {}, Bytes(0), kMeasured);
  played.start();
  played.push(0);
  played.read(1);
  CHECK(played.sent() == "PUSH_READ 0");
  // An update may take this round trip and four times its deviation: 0.3 s in all.
  played.pass(100 * kMs);
  played.answer(pb::DataItem::ACK, 0, 1);
  played.pass(499 * kMs);
  CHECK(played.sent().empty());
  played.pass(kMs);
  CHECK(played.sent() == "READ 1");
  // Then as before: four times as long, however often it is sent.
  for (int i = 0; i < 3; ++i) {
    played.pass(1199 * kMs);
    CHECK(played.sent().empty());
    played.pass(kMs);
    CHECK(played.sent() == "READ 1");
  }
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

TEST_CASE("a client whose backups lag has no room for another update until they are up to date",
          "[client]") {
  // Updates of 16 bytes: more than the limit, so that those of two clocks are held at most.
  Played played(test::one_table(), {}, Bytes(8));
  played.start();
  const auto acknowledge = [&played](std::int64_t done, std::int64_t stable) {
    DataItem item;
    item.kind = pb::DataItem::ACK;
    item.done = Clock(done);
    item.stable = Clock(stable);
    played.handle(DataItems{{item}});
  };
  CHECK(played.client.room() == 32);
  played.push(0);
  played.push(1);
  played.take();
  CHECK(played.client.room() == 0);
  acknowledge(1, 0);
  CHECK(played.client.room() == 0);  // 0 is kept, and 1 is not acknowledged
  acknowledge(2, 0);
  CHECK(played.client.room() == 0);
  acknowledge(2, 1);
  CHECK(played.client.room() == 16);
  // Another host has none of it for sure: 1 is sent again, and acknowledged there.
  REQUIRE(played.client.move(kShard, 1, played.now));
  CHECK(played.client.room() == 16);
  played.start();
  CHECK(played.sent() == "PUSH 1");
  acknowledge(2, 1);
  CHECK(played.client.room() == 16);
  acknowledge(2, 2);
  CHECK(played.client.room() == 32);
}

TEST_CASE("the memory of an update is held until its last slice is safe", "[client]") {
  constexpr std::int64_t kCount = SliceLayout::kSliceElements + 4;
  constexpr std::uint64_t kBytes = kCount * sizeof(float);
  Played played({test::make_table(0, {kCount})}, {}, Bytes(8));
  played.start();
  const auto acknowledge = [&played](std::uint32_t slice, std::int64_t stable) {
    DataItem item;
    item.kind = pb::DataItem::ACK;
    item.slice = SliceId(slice);
    item.done = Clock(2);
    item.stable = Clock(stable);
    played.handle(DataItems{{item}});
  };
  for (const std::int64_t clock : {0, 1}) {
    const auto gradient = test::gradient_of(0, clock, kCount);
    played.client.push(TableId(0), {Clock(clock), test::frame_of(gradient), 0});
  }
  played.take();
  acknowledge(0, 2);
  acknowledge(1, 0);
  CHECK(played.client.room() == 0);
  acknowledge(1, 1);
  CHECK(played.client.room() == kBytes);
  acknowledge(1, 2);
  CHECK(played.client.room() == 2 * kBytes);
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
