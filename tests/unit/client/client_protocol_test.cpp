#include "worker/client/client_protocol.hpp"

#include <map>
#include <random>

#include "proto/wire_version.hpp"
#include "server/shard.hpp"
#include "tests/unit/server/job_maker.hpp"

using Catch::Matchers::Contains;

namespace taut {
namespace {

using test::JobMaker;
using test::same_bits;

constexpr Duration kResend{1'000'000};
constexpr ShardId kShard{0};

std::vector<TableSpec> one_table() {
  return {test::make_table(0, {4})};
}

/// A client of one shard, which the test plays.
struct Played {
  explicit Played(std::vector<TableSpec> tables = one_table())
      : client({JobId(7), WorkerId(0), Incarnation(100), "hash"}, {kShard}, kResend) {
    client.open(std::move(tables));
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
    client.push(TableId(0), Clock(clock), test::frame_of(test::gradient_of(0, clock, 4)), 0);
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
  REQUIRE(open.tables_size() == 1);
  CHECK(from_wire(open.tables(0)).value() == one_table()[0]);
  CHECK_FALSE(played.client.ready());
  played.accept_open();
  CHECK(played.client.ready());
  CHECK(played.sent() == "READ 0");
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

TEST_CASE("an update is kept until it is acknowledged, and sent again when that takes too long",
          "[client]") {
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
  // The shard has lost its memory: it greets anew, and expects clock 0 once more.
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

TEST_CASE("behind a held update nothing is sent that the shard would refuse", "[client]") {
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

namespace {

/// Real shards and clients with a seeded network between them that loses, repeats and reorders
/// everything, and breaks connections.
class Storm {
 public:
  Storm(JobMaker maker, std::size_t workers, std::uint64_t seed)
      : random_(seed), job_(std::move(maker)) {
    tables_ = {test::make_table(0, {6}), test::make_table(1, {4}), test::make_table(2, {5})};
    const auto view = job_.view();
    for (const ShardId id : view->shards) {
      shards_.push_back(std::make_unique<server::Shard>(id, pool_));
      deliver(shards_.size() - 1, shards_.back()->set_job(view));
    }
    for (std::size_t w = 0; w < workers; ++w) {
      const WorkerId id(static_cast<std::uint32_t>(w));
      auto client = std::make_unique<ClientProtocol>(
          ClientIdentity{JobId(7), id, job_.incarnation(id), job_.hash()}, view->shards,
          Duration(20'000));
      client->open(tables_);
      workers_.push_back({std::move(client), {}, Clock(0), 0});
      for (const TableSpec& table : tables_) workers_.back().values.emplace_back(table.count());
    }
  }

  /// Every worker trains until `end`. Returns whether all came there.
  bool run(Clock end) {
    for (Worker& worker : workers_) read_all(worker);
    for (int step = 0; step < 200'000; ++step) {
      now_ = now_ + Duration(1'000);
      if (random_() % 200 == 0) ++generation_;  // every connection breaks
      bool over = true;
      for (std::size_t w = 0; w < workers_.size(); ++w) over &= advance(w, end);
      if (over) return true;
      deliver_some();
    }
    return false;
  }

  [[nodiscard]] std::vector<float> table(std::size_t index) {
    for (const auto& shard : shards_) {
      DataMessage hello{JobId(7), {}, {}, greeting()};
      static_cast<void>(shard->handle(PeerId(1), hello));
      DataItem item;
      item.kind = pb::DataItem::SNAPSHOT;
      item.table = tables_[index].id;
      const auto out = shard->handle(PeerId(1), {JobId(7), {}, {}, DataItems{{item}}});
      const DataItem answer = std::get<DataItems>(out.at(0).message.body).items.at(0);
      if (answer.kind == pb::DataItem::SNAPSHOT_VALUE) return test::floats_of(answer.payload);
    }
    return {};
  }
  [[nodiscard]] std::int64_t most_stale() const { return most_stale_; }
  [[nodiscard]] const std::vector<TableSpec>& tables() const { return tables_; }
  std::string failure;

 private:
  struct Worker {
    std::unique_ptr<ClientProtocol> client;
    std::vector<std::vector<float>> values;
    Clock clock;
    std::size_t came = 0;  // tables of this clock
  };
  struct Packet {
    std::size_t shard;
    std::size_t worker;
    std::uint64_t generation;
    bool to_shard;
    DataMessage message;
  };

  pb::DataHello greeting() {
    pb::DataHello hello;
    hello.set_wire_version(kWireVersion);
    hello.set_job_hash(job_.hash());
    return hello;
  }
  void read_all(Worker& worker) {
    for (std::size_t t = 0; t < tables_.size(); ++t) {
      worker.client->read(tables_[t].id, worker.clock, worker.values[t]);
    }
  }
  bool advance(std::size_t w, Clock end) {
    Worker& worker = workers_[w];
    worker.client->tick(now_);
    for (const CompletedRead& read : worker.client->take_completed()) {
      most_stale_ = std::max(most_stale_, read.clock - read.version);
      ++worker.came;
    }
    if (worker.came == tables_.size() && worker.clock < end && random_() % 4 != 0) {
      worker.came = 0;
      for (std::size_t t = 0; t < tables_.size(); ++t) {
        worker.client->read(tables_[t].id, worker.clock.next(), worker.values[t]);
        const auto gradient = test::gradient_of(static_cast<std::uint32_t>(w), worker.clock.value(),
                                                tables_[t].count(), t);
        worker.client->push(tables_[t].id, worker.clock, test::frame_of(gradient), 0);
      }
      worker.clock = worker.clock.next();
    }
    for (auto& [to, message] : worker.client->take_outgoing(now_)) {
      toss({to.value(), w, generation_, true, std::move(message)});
    }
    if (worker.client->failure()) failure = worker.client->failure()->message;
    return (worker.clock == end && worker.client->unacknowledged() == 0) || !failure.empty();
  }
  void toss(const Packet& packet) {
    if (random_() % 10 == 0) return;
    air_.push_back(packet);
    if (random_() % 10 == 0) air_.push_back(packet);
  }
  void deliver(std::size_t shard, const std::vector<server::Outgoing>& out) {
    for (const server::Outgoing& one : out) {
      const std::uint64_t peer = one.to.value();
      toss({shard, peer % 16, peer / 16 - 1, false, one.message});
    }
  }
  void deliver_some() {
    for (std::size_t i = 0; i < 4 && !air_.empty(); ++i) {
      const std::size_t which = random_() % air_.size();
      const Packet packet = air_[which];
      air_.erase(air_.begin() + static_cast<std::ptrdiff_t>(which));
      // What was in flight is lost with its connection.
      if (packet.generation != generation_) continue;
      if (packet.to_shard) {
        const PeerId from((packet.generation + 1) * 16 + packet.worker);
        deliver(packet.shard, shards_[packet.shard]->handle(from, packet.message));
      } else {
        workers_[packet.worker].client->handle(ShardId(static_cast<std::uint32_t>(packet.shard)),
                                               packet.message, now_);
      }
    }
  }

  std::mt19937_64 random_;
  JobMaker job_;
  std::vector<TableSpec> tables_;
  BufferPool pool_;
  std::vector<std::unique_ptr<server::Shard>> shards_;
  std::vector<Worker> workers_;
  std::vector<Packet> air_;
  std::uint64_t generation_ = 0;
  TimePoint now_;
  std::int64_t most_stale_ = 0;
};

}  // namespace

TEST_CASE("what was lost, repeated or reordered is sent again and applied exactly once",
          "[client]") {
  const auto seed = GENERATE(std::uint64_t{1}, std::uint64_t{2}, std::uint64_t{3});
  CAPTURE(seed);
  constexpr Clock kEnd{40};
  Storm storm(JobMaker(3, Slack(0), 2), 3, seed);
  REQUIRE(storm.run(kEnd));
  REQUIRE(storm.failure.empty());
  // The same sums with nothing between: one slice, nothing lost.
  for (std::size_t t = 0; t < storm.tables().size(); ++t) {
    JobMaker quiet(3);
    const auto view = quiet.view();
    BufferPool pool;
    const TableSpec& table = storm.tables()[t];
    server::SliceState slice(table, {table.id, SliceId(0), 0, table.count(), ShardId(0)}, *view,
                             pool);
    std::vector<server::Answer> released;
    for (std::int64_t clock = 0; clock < kEnd.value(); ++clock) {
      for (std::uint32_t w = 0; w < 3; ++w) {
        slice.push(WorkerId(w), Clock(clock),
                   test::frame_of(test::gradient_of(w, clock, table.count(), t)), 1, *view,
                   released);
      }
    }
    CHECK(same_bits(storm.table(t), test::floats_of(slice.snapshot(PeerId(1)).values)));
  }
}

TEST_CASE("no read is staler than the slack, whatever happens to messages", "[client]") {
  const auto slack = GENERATE(std::int64_t{0}, std::int64_t{1}, std::int64_t{3});
  CAPTURE(slack);
  Storm storm(JobMaker(3, Slack(slack), 2), 3, 17);
  REQUIRE(storm.run(Clock(40)));
  CHECK(storm.failure.empty());
  CHECK(storm.most_stale() <= slack);
}

}  // namespace taut
