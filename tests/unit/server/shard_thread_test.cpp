#include "server/shard_thread.hpp"

#include <condition_variable>
#include <deque>
#include <mutex>
#include <optional>
#include <thread>
#include <vector>

#include "common/ssp/slice_layout.hpp"
#include "proto/wire_version.hpp"
#include "server/ungreeted.hpp"
#include "tests/unit/server/job_maker.hpp"
#include "tests/unit/server/row_job.hpp"

namespace taut::server {
namespace {

using test::JobMaker;

constexpr Duration kDeadline{10'000'000};

/// Reports as they come from a shard's thread.
class Reports {
 public:
  void put(ShardReport report) {
    std::scoped_lock lock(mutex_);
    reports_.push_back(std::move(report));
    arrived_.notify_all();
  }
  std::optional<ShardReport> take() {
    std::unique_lock lock(mutex_);
    if (!arrived_.wait_for(lock, kDeadline, [&] { return !reports_.empty(); })) return std::nullopt;
    ShardReport report = reports_.front();
    reports_.pop_front();
    return report;
  }

 private:
  std::mutex mutex_;
  std::condition_variable arrived_;
  std::deque<ShardReport> reports_;
};

/// A shard on loopback and one connection to it.
struct Line {
  Line() {
    auto started = ShardThread::start(
        context, "127.0.0.1:0", {},
        [this](std::size_t, ShardReport report) { reports.put(std::move(report)); });
    REQUIRE(started.has_value());
    shard = std::move(started.value());
    endpoint = context.make_endpoint();
    reconnect();
  }
  void reconnect() {
    if (peer) endpoint->disconnect(*peer);
    auto connected = endpoint->connect(shard->address());
    REQUIRE(connected.has_value());
    peer = connected.value();
  }
  void set_job() {
    shard->set_job(ShardId(0), job.view());
    REQUIRE(reports.take());
  }
  /// A queue of one message has no place before the last one has left.
  void send(const DataMessage& message) {
    const TimePoint deadline = steady_now() + kDeadline;
    while (!endpoint->send(*peer, encode(message))) {
      REQUIRE(steady_now() < deadline);
      std::this_thread::sleep_for(Duration(100));
    }
  }
  DataMessage ask(const DataMessage& message) {
    send(message);
    return receive();
  }
  DataMessage receive() {
    const TimePoint deadline = steady_now() + kDeadline;
    while (steady_now() < deadline) {
      if (auto incoming = endpoint->receive(Duration(100'000))) {
        auto message = decode_data(incoming->message);
        REQUIRE(message.has_value());
        return message.value();
      }
    }
    FAIL("no answer from the shard");
    return {};
  }
  DataMessage envelope() { return {JobId(7), WorkerId(0), job.incarnation(WorkerId(0)), {}}; }
  pb::DataHelloReply hello() {
    DataMessage message = envelope();
    pb::DataHello hello;
    hello.set_wire_version(kWireVersion);
    hello.set_job_hash(job.hash());
    message.body = hello;
    return std::get<pb::DataHelloReply>(ask(message).body);
  }
  void open(std::int64_t values = 4) {
    DataMessage message = envelope();
    pb::OpenTables requested;
    *requested.add_tables() = to_wire(test::make_table(0, {values}));
    message.body = requested;
    REQUIRE(std::get<pb::OpenTablesReply>(ask(message).body).accepted());
  }
  DataMessage snapshot(std::uint32_t slice = 0) {
    DataMessage message = envelope();
    DataItem item;
    item.kind = pb::DataItem::SNAPSHOT;
    item.slice = SliceId(slice);
    message.body = DataItems{{item}};
    return message;
  }

  ZmqContext context{Security::insecure()};
  Reports reports;
  JobMaker job{1};
  std::unique_ptr<ShardThread> shard;
  std::unique_ptr<Endpoint> endpoint;
  std::optional<PeerId> peer;
};

}  // namespace

TEST_CASE("a shard serves over ZeroMQ, and requests a hello from each new connection",
          "[shard_thread]") {
  Line line;
  CHECK_FALSE(line.hello().accepted());  // no job yet
  line.set_job();
  REQUIRE(line.hello().accepted());
  line.open();
  const auto answer = std::get<DataItems>(line.ask(line.snapshot()).body);
  REQUIRE(answer.items.size() == 1);
  CHECK(answer.items[0].kind == pb::DataItem::SNAPSHOT_VALUE);

  line.reconnect();
  CHECK(std::get<pb::DataHelloReply>(line.ask(line.snapshot()).body).greet_again());
  CHECK(line.hello().accepted());
  // The tables are still there, as they were.
  const auto again = std::get<DataItems>(line.ask(line.snapshot()).body);
  CHECK(test::floats_of(again.items.at(0).payload) == test::floats_of(answer.items[0].payload));
}

TEST_CASE("what a connection sends before its hello is not decoded", "[shard_thread]") {
  Line line;
  line.set_job();
  DataMessage message = line.envelope();
  DataItem push;
  push.kind = pb::DataItem::PUSH;
  push.count = 4;
  push.payload = test::frame_of({1, 2, 3, 4});
  message.body = DataItems{{push}};
  Message frames = encode(message);
  frames.frames.push_back(Frame::copy_of(std::string("belongs to no item")));
  REQUIRE_FALSE(decode_data(frames));
  const auto again = [&] {
    REQUIRE(line.endpoint->send(*line.peer, frames));
    return line.receive();
  };
  CHECK(std::get<pb::DataHelloReply>(again().body).greet_again());
  REQUIRE(line.hello().accepted());
  // Now it is, and dropped.
  REQUIRE(line.endpoint->send(*line.peer, frames));
  const auto next = line.ask(line.snapshot());
  CHECK(std::holds_alternative<DataItems>(next.body));
}

TEST_CASE("before a hello, a server's key has images decoded and a worker's has not",
          "[shard_thread]") {
  DataMessage message{JobId(7), WorkerId(0), Incarnation(1), DataImages{}};
  const auto envelope = envelope_of(encode(message));
  REQUIRE(envelope);
  CHECK(envelope->job == JobId(7));
  CHECK(envelope->body == pb::DataHeader::kImages);
  const Identity server{"server0", KeyRole::kServer};
  const Identity worker{"worker0", KeyRole::kWorker};
  CHECK(may_decode_ungreeted(*envelope, &server));
  CHECK_FALSE(may_decode_ungreeted(*envelope, &worker));
  message.body = pb::DataHello();
  CHECK(may_decode_ungreeted(envelope_of(encode(message)).value(), &worker));
  message.body = pb::OpenTables();
  CHECK_FALSE(may_decode_ungreeted(envelope_of(encode(message)).value(), &server));
  CHECK_FALSE(envelope_of(Message()));
}

TEST_CASE("a field that only has the number of a hello does not have other bodies decoded",
          "[shard_thread]") {
  const DataMessage items{JobId(7), WorkerId(0), Incarnation(1), DataItems{}};
  std::string bytes(encode(items).frames.at(0).text());
  // As a number, which the parser keeps as an unknown field.
  bytes += static_cast<char>(pb::DataHeader::kHelloFieldNumber << 3);
  bytes += '\x01';
  const Message message{{Frame::copy_of(bytes)}};
  const auto decoded = decode_data(message);
  REQUIRE(decoded.has_value());
  CHECK(std::holds_alternative<DataItems>(decoded.value().body));
  const auto envelope = envelope_of(message);
  REQUIRE(envelope);
  CHECK(envelope->body == pb::DataHeader::kItems);
  const Identity worker{"worker0", KeyRole::kWorker};
  CHECK_FALSE(may_decode_ungreeted(*envelope, &worker));
}

TEST_CASE("garbage on a shard's port is dropped, and the shard continues to serve",
          "[shard_thread]") {
  Line line;
  line.set_job();
  const auto send = [&](const std::vector<std::string>& frames) {
    Message message;
    for (const std::string& bytes : frames) message.frames.push_back(Frame::copy_of(bytes));
    const auto sent = line.endpoint->send(*line.peer, std::move(message));
    REQUIRE(sent.has_value());
  };
  send({""});
  send({"", "", ""});
  send({"GET / HTTP/1.1\r\n\r\n"});
  send({std::string(1 << 20, '\xff')});
  send({std::string("TAUTD\0\3\0", 8)});
  send({std::string("TAUTD\0\3\0\xff\xff\xff\xff", 12)});
  send({std::string("TAUTC\0\2\0", 8)});
  send(std::vector<std::string>(300, "x"));
  Message other_version = encode(line.snapshot());
  std::string header(other_version.frames[0].text());
  header[6] = static_cast<char>(kWireVersion + 1);
  send({header});
  CHECK(line.hello().accepted());
}

TEST_CASE("a peer that asks and does not read takes bounded memory", "[shard_thread]") {
  Line line;
  EndpointLimits small;
  small.queued_messages = 1;  // its I/O thread does not read ahead either
  line.endpoint = line.context.make_endpoint(small);
  line.peer.reset();
  line.reconnect();
  line.set_job();
  REQUIRE(line.hello().accepted());
  constexpr std::uint64_t kValues = SliceLayout::kSliceElements;
  line.open(static_cast<std::int64_t>(kValues));
  const std::uint64_t limit = (64ULL << 20U) + kValues * sizeof(float);
  const std::uint64_t before = line.shard->load().messages_in();
  const std::uint64_t requests = 4 * limit / (kValues * sizeof(float));
  const TimePoint deadline = steady_now() + kDeadline;
  for (std::uint64_t sent = 0; sent < requests; ++sent) line.send(line.snapshot());
  while (line.shard->load().messages_in() < before + requests) {
    REQUIRE(steady_now() < deadline);
    std::this_thread::sleep_for(Duration(1000));
  }
  // In addition to what waits, the kernel's buffers hold some of it.
  CHECK(line.shard->load().bytes_out() < limit + (64ULL << 20U));
  // Another peer is served as before.
  line.endpoint = line.context.make_endpoint();
  line.peer.reset();
  line.reconnect();
  REQUIRE(line.hello().accepted());
  const auto answer = std::get<DataItems>(line.ask(line.snapshot()).body);
  CHECK(answer.items.at(0).kind == pb::DataItem::SNAPSHOT_VALUE);
}

TEST_CASE("the value of a slice leaves before its table's next slice is applied",
          "[shard_thread]") {
  constexpr std::uint64_t kSlice = SliceLayout::kSliceElements;
  Line line;
  line.set_job();
  REQUIRE(line.hello().accepted());
  line.open(static_cast<std::int64_t>(2 * kSlice));
  const auto push = [&line](std::uint32_t slice, std::int64_t clock) {
    DataMessage message = line.envelope();
    DataItem item;
    item.kind = pb::DataItem::PUSH_READ;
    item.slice = SliceId(slice);
    item.offset = slice * kSlice;
    item.count = kSlice;
    item.clock = Clock(clock);
    item.payload = test::frame_of(std::vector<float>(kSlice, 1e-3F));
    message.body = DataItems{{item}};
    return message;
  };
  const auto check_value = [](const DataMessage& message, std::uint32_t slice,
                              std::int64_t version) {
    const auto& items = std::get<DataItems>(message.body).items;
    REQUIRE(items.size() == 1);
    CHECK(items[0].kind == pb::DataItem::VALUE);
    CHECK(items[0].slice == SliceId(slice));
    CHECK(items[0].version == Clock(version));
  };
  // The other slice's update is still with the worker.
  check_value(line.ask(push(0, 0)), 0, 1);
  const auto other = std::get<DataItems>(line.ask(line.snapshot(1)).body);
  REQUIRE(other.items.size() == 1);
  CHECK(other.items[0].version == Clock(0));
  check_value(line.ask(push(1, 0)), 1, 1);
  // Both are under way: their values do not wait for each other.
  line.send(push(0, 1));
  line.send(push(1, 1));
  check_value(line.receive(), 0, 2);
  check_value(line.receive(), 1, 2);
}

TEST_CASE("a shard's load has the rows that it keeps", "[shard_thread]") {
  const TableSpec table = test::row_table(0);
  Line line;
  line.set_job();
  REQUIRE(line.hello().accepted());
  DataMessage message = line.envelope();
  pb::OpenTables requested;
  *requested.add_tables() = to_wire(table);
  message.body = requested;
  REQUIRE(std::get<pb::OpenTablesReply>(line.ask(message).body).accepted());
  CHECK(line.shard->load().rows() == 0);
  const DataItem push = test::row_push(table, 0, 0, 0);
  REQUIRE(push.rows > 0);
  message.body = DataItems{{push}};
  const auto answer = std::get<DataItems>(line.ask(message).body);
  CHECK(answer.items.at(0).kind == pb::DataItem::ACK);
  CHECK(line.shard->load().rows() == push.rows);
}

TEST_CASE("every change of a job is reported, its end too", "[shard_thread]") {
  Line line;
  line.set_job();
  line.job.fence(WorkerId(0));
  line.shard->set_job(ShardId(0), line.job.view());
  const auto report = line.reports.take();
  REQUIRE(report);
  CHECK(report->revision == 2);
  CHECK(report->fenced.contains(WorkerId(0)));
  line.job.state.set_finished(true);
  line.shard->set_job(ShardId(0), line.job.view());
  const auto last = line.reports.take();
  REQUIRE(last);
  CHECK(last->job == JobId(7));
  CHECK(last->revision == 3);
}

TEST_CASE("a shard whose port is in use reports it", "[shard_thread]") {
  Line line;
  const auto second = ShardThread::start(line.context, line.shard->address(), {.index = 1},
                                         [](std::size_t, const ShardReport&) {});
  REQUIRE_FALSE(second.has_value());
  CHECK(second.error().code == ErrorCode::kExists);
  const auto nowhere = ShardThread::start(line.context, "not an address", {.index = 1},
                                          [](std::size_t, const ShardReport&) {});
  REQUIRE_FALSE(nowhere.has_value());
  CHECK(nowhere.error().code == ErrorCode::kInvalid);
}

TEST_CASE("a waiting shard ends at once on request", "[shard_thread]") {
  Line line;
  line.set_job();
  const TimePoint begin = steady_now();
  line.shard.reset();
  CHECK(steady_now() - begin < Duration(2'000'000));
}

}  // namespace taut::server
