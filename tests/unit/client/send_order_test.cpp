#include "tests/unit/server/job_maker.hpp"
#include "worker/client/client_protocol.hpp"

namespace taut {
namespace {

constexpr ShardId kShard{0};
constexpr std::uint32_t kTables = 4;

/// A client that has opened four tables of 16 bytes at one shard, which the test plays.
struct Sender {
  explicit Sender(SendPolicy policy)
      : client({JobId(7), WorkerId(0), Incarnation(100), "hash"}, {kShard}, Duration(1'000'000),
               policy) {
    std::vector<TableSpec> tables;
    for (std::uint32_t i = 0; i < kTables; ++i) tables.push_back(test::make_table(i, {4}));
    client.open(std::move(tables));
    (void)client.take_outgoing(now);
    pb::DataHelloReply hello;
    hello.set_accepted(true);
    handle(hello);
    (void)client.take_outgoing(now);
    pb::OpenTablesReply opened;
    opened.set_accepted(true);
    handle(opened);
    (void)client.take_outgoing(now);
  }
  void handle(decltype(DataMessage::body) body) {
    client.handle(kShard, {JobId(7), {}, {}, std::move(body)}, now);
  }
  /// Pushes from the last table to the first, as backward does.
  void push_all(std::int64_t clock) {
    for (std::uint32_t table = kTables; table-- > 0;) {
      client.push(TableId(table),
                  {Clock(clock), test::frame_of(test::gradient_of(0, clock, 4)), 0});
    }
  }
  /// The tables of what is sent now, in order: "3 2".
  std::string sent() {
    std::string text;
    for (auto& [to, message] : client.take_outgoing(now)) {
      for (const DataItem& item : std::get<DataItems>(message.body).items) {
        text += (text.empty() ? "" : " ") + std::to_string(item.table.value());
      }
    }
    return text;
  }
  [[nodiscard]] ClientFigures figures() const {
    ClientFigures figures;
    client.describe(figures);
    return figures;
  }
  void acknowledge(std::uint32_t table, std::int64_t done) {
    DataItem item;
    item.kind = pb::DataItem::ACK;
    item.table = TableId(table);
    item.done = Clock(done);
    handle(DataItems{{item}});
  }

  TimePoint now;
  ClientProtocol client;
};

}  // namespace

TEST_CASE("tables that the next forward pass reads first overtake unsent ones", "[client]") {
  Sender sender({SendOrder::kFrontFirst, Bytes(32)});
  sender.client.push(TableId(3), {Clock(0), test::frame_of(test::gradient_of(0, 0, 4)), 0});
  CHECK(sender.sent() == "3");
  for (const std::uint32_t table : {2U, 1U, 0U}) {
    sender.client.push(TableId(table), {Clock(0), test::frame_of(test::gradient_of(0, 0, 4)), 0});
  }
  // One more fits into the window: the first table's, although it came last.
  CHECK(sender.sent() == "0");
  CHECK(sender.sent().empty());
  CHECK(sender.client.has_outgoing());
  sender.acknowledge(3, 1);
  CHECK(sender.sent() == "1");
  sender.acknowledge(0, 1);
  sender.acknowledge(1, 1);
  CHECK(sender.sent() == "2");
  sender.acknowledge(2, 1);
  CHECK(sender.client.unacknowledged() == 0);
  CHECK_FALSE(sender.client.has_outgoing());
}

TEST_CASE("an earlier clock is sent before a later one, independent of the table", "[client]") {
  Sender sender({SendOrder::kFrontFirst, Bytes(48)});
  sender.push_all(0);
  sender.push_all(1);
  CHECK(sender.sent() == "0 1 2");
  sender.acknowledge(0, 1);
  sender.acknowledge(1, 1);
  CHECK(sender.sent() == "3 0");
}

TEST_CASE("as ready, updates are sent in the order in which they were pushed", "[client]") {
  Sender sender({SendOrder::kAsReady, Bytes(1UL << 20U)});
  sender.push_all(0);
  CHECK(sender.sent() == "3 2 1 0");
}

TEST_CASE("an update larger than the window is sent alone", "[client]") {
  Sender sender({SendOrder::kFrontFirst, Bytes(1)});
  sender.push_all(0);
  for (const char* table : {"0", "1", "2", "3"}) {
    CHECK(sender.sent() == table);
    CHECK(sender.sent().empty());
    sender.acknowledge(static_cast<std::uint32_t>(table[0] - '0'), 1);
  }
}

TEST_CASE("pending and unsent updates of a shard are counted separately", "[client]") {
  Sender sender({SendOrder::kFrontFirst, Bytes(32)});
  sender.push_all(0);
  CHECK(sender.figures().updates_waiting == 4);
  CHECK(sender.figures().under_way.at(kShard).updates == 0);
  CHECK(sender.sent() == "0 1");
  CHECK(sender.figures().updates_waiting == 2);
  CHECK(sender.figures().under_way.at(kShard).updates == 2);
  CHECK(sender.figures().under_way.at(kShard).bytes == 32);
  sender.acknowledge(0, 1);
  CHECK(sender.figures().under_way.at(kShard).updates == 1);
  // What is overdue waits to be sent again.
  sender.now = sender.now + Duration(2'000'000);
  sender.client.tick(sender.now);
  CHECK(sender.figures().updates_waiting == 3);
  CHECK(sender.figures().under_way.at(kShard).bytes == 0);
}

TEST_CASE("a lost update frees the window, and is sent again", "[client]") {
  Sender sender({SendOrder::kFrontFirst, Bytes(1)});
  sender.push_all(0);
  CHECK(sender.sent() == "0");
  sender.client.tick(sender.now);
  CHECK(sender.client.resent() == 0);
  sender.now = sender.now + Duration(2'000'000);
  sender.client.tick(sender.now);
  CHECK(sender.sent() == "0");
  CHECK(sender.client.resent() == 1);
  // A new connection: nothing is under way on it.
  pb::DataHelloReply again;
  again.set_greet_again(true);
  sender.handle(again);
  (void)sender.client.take_outgoing(sender.now);
  pb::DataHelloReply hello;
  hello.set_accepted(true);
  sender.handle(hello);
  (void)sender.client.take_outgoing(sender.now);
  pb::OpenTablesReply opened;
  opened.set_accepted(true);
  sender.handle(opened);
  CHECK(sender.sent() == "0");
}

}  // namespace taut
