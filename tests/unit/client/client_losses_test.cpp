#include <algorithm>
#include <cstdint>
#include <future>
#include <map>
#include <memory>
#include <optional>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "tests/unit/client/served_job.hpp"
#include "tests/unit/client/two_tables.hpp"
#include "worker/client/client.hpp"

namespace taut {
namespace {

using test::JobMaker;
using test::kDeadline;
using test::kSoon;
using test::kTable;
using test::push;
using test::same_bits;
using test::ServedJob;
using test::two_tables;

/// Loses, repeats and delays what a real endpoint carries, and makes its connections again.
class FaultyEndpoint final : public Endpoint {
 public:
  FaultyEndpoint(std::unique_ptr<Endpoint> inner, std::uint64_t seed)
      : inner_(std::move(inner)), random_(seed) {}

  Result<std::string> bind(const std::string& address) override { return inner_->bind(address); }
  Result<PeerId> connect(const std::string& address) override {
    TAUT_TRY(const PeerId peer, inner_->connect(address));
    const PeerId outer(lines_.size() + 1);
    lines_[outer] = {address, peer};
    return outer;
  }
  void disconnect(PeerId peer) override { inner_->disconnect(lines_.at(peer).peer); }
  Result<void> send(PeerId to, Message message) override {
    Line& line = lines_.at(to);
    if (random_() % 40 == 0) {
      inner_->disconnect(line.peer);
      TAUT_TRY(line.peer, inner_->connect(line.address));
    }
    if (random_() % 12 == 0) return ok();
    if (random_() % 12 == 0) static_cast<void>(inner_->send(line.peer, message));
    return inner_->send(line.peer, std::move(message));
  }
  std::optional<Incoming> receive(Duration wait) override {
    // Short, because what is lost here is noticed by the caller's timer alone.
    auto incoming = inner_->receive(std::min(wait, Duration(2'000)));
    if (!incoming || random_() % 12 == 0) return std::nullopt;
    for (const auto& [outer, line] : lines_) {
      if (line.peer == incoming->from) return Incoming{outer, std::move(incoming->message)};
    }
    return std::nullopt;
  }
  void wake() override { inner_->wake(); }

 private:
  struct Line {
    std::string address;
    PeerId peer;
  };
  std::unique_ptr<Endpoint> inner_;
  std::mt19937_64 random_;
  std::map<PeerId, Line> lines_;
};

}  // namespace

TEST_CASE("reads and updates that were lost or whose connection broke happen once", "[client]") {
  const std::uint64_t seed = 23;
  CAPTURE(seed);
  constexpr std::int64_t kClocks = 30;
  constexpr std::uint32_t kWorkers = 2;
  const auto train = [](ServedJob& served, std::uint32_t worker, Client& client) {
    std::vector<std::vector<float>> values;
    const auto tables = two_tables();
    if (!client.open(tables, kDeadline)) return false;
    values.reserve(tables.size());
    for (const TableSpec& table : tables) values.emplace_back(table.count());
    for (std::int64_t clock = 0; clock < kClocks; ++clock) {
      for (const TableSpec& table : tables) {
        client.read(table.id, Clock(clock), values[table.id.value()]);
        if (!client.wait(table.id, Clock(clock), kDeadline)) return false;
        push(client, worker, clock, table.id);
      }
    }
    static_cast<void>(served);
    return client.flush(kDeadline).has_value();
  };
  const auto result_of = [&](bool faulty) {
    ServedJob served(JobMaker(kWorkers, Slack(0), 2));
    std::vector<std::unique_ptr<Client>> clients;
    std::vector<std::future<bool>> running;
    for (std::uint32_t worker = 0; worker < kWorkers; ++worker) {
      auto endpoint = served.context.make_endpoint();
      if (faulty) endpoint = std::make_unique<FaultyEndpoint>(std::move(endpoint), seed + worker);
      clients.push_back(std::make_unique<Client>(
          std::move(endpoint), served.options(WorkerId(worker), Duration(30'000))));
    }
    for (std::uint32_t worker = 0; worker < kWorkers; ++worker) {
      running.push_back(std::async(
          std::launch::async, [&, worker] { return train(served, worker, *clients[worker]); }));
    }
    for (auto& one : running) CHECK(one.get());
    std::vector<float> first(4);
    std::vector<float> second(6);
    const auto reader = served.client(0);
    REQUIRE(reader->open(two_tables(), kDeadline).has_value());
    CHECK(reader->snapshot(TableId(0), first, kDeadline).value().version == Clock(kClocks));
    CHECK(reader->snapshot(TableId(1), second, kDeadline).value().version == Clock(kClocks));
    first.insert(first.end(), second.begin(), second.end());
    return first;
  };
  CHECK(same_bits(result_of(true), result_of(false)));
}

TEST_CASE("a snapshot that arrived too late is not taken for a later one", "[client]") {
  // A shard that the test plays: it answers a snapshot only when it is told to.
  ZmqContext context{Security::insecure()};
  const auto shard = context.make_endpoint();
  const auto bound = shard->bind("127.0.0.1:0");
  REQUIRE(bound.has_value());
  ClientOptions options;
  options.job = JobId(7);
  options.resend = kDeadline;
  options.shards.push_back({ShardId(0), bound.value()});
  Client client(context.make_endpoint(), options);

  std::optional<PeerId> peer;
  const auto hear = [&] {
    const TimePoint deadline = steady_now() + kDeadline;
    while (steady_now() < deadline) {
      if (auto incoming = shard->receive(Duration(100'000))) {
        peer = incoming->from;
        return decode_data(incoming->message).value();
      }
    }
    FAIL("nothing came from the client");
    return DataMessage();
  };
  const auto say = [&](auto body) {
    const DataMessage message{JobId(7), {}, {}, std::move(body)};
    REQUIRE(shard->send(*peer, encode(message)).has_value());
  };
  const auto answer = [&](std::int64_t version) {
    DataItem item;
    item.kind = pb::DataItem::SNAPSHOT_VALUE;
    item.version = Clock(version);
    item.count = 4;
    item.payload = test::frame_of(std::vector<float>(4, static_cast<float>(version)));
    say(DataItems{{item}});
  };
  auto opening = std::async(std::launch::async,
                            [&] { return client.open({test::make_table(0, {4})}, kDeadline); });
  CHECK(std::holds_alternative<pb::DataHello>(hear().body));
  pb::DataHelloReply hello;
  hello.set_accepted(true);
  say(hello);
  CHECK(std::holds_alternative<pb::OpenTables>(hear().body));
  pb::OpenTablesReply opened;
  opened.set_accepted(true);
  say(opened);
  REQUIRE(opening.get().has_value());

  std::vector<float> values(4);
  CHECK(client.snapshot(kTable, values, kSoon).error().code == ErrorCode::kTimeout);
  CHECK(std::holds_alternative<DataItems>(hear().body));
  answer(1);
  // The late answer has been worked off once a message behind it was answered.
  std::vector<float> read(4);
  client.read(kTable, Clock(0), read);
  static_cast<void>(hear());
  DataItem value;
  value.kind = pb::DataItem::VALUE;
  value.count = 4;
  value.payload = test::frame_of({0, 0, 0, 0});
  say(DataItems{{value}});
  REQUIRE(client.wait(kTable, Clock(0), kDeadline).has_value());

  auto second =
      std::async(std::launch::async, [&] { return client.snapshot(kTable, values, kDeadline); });
  CHECK(std::holds_alternative<DataItems>(hear().body));
  answer(2);
  const auto result = second.get();
  REQUIRE(result.has_value());
  CHECK(result.value().version == Clock(2));
  CHECK(values == std::vector<float>(4, 2.0F));
}

}  // namespace taut
