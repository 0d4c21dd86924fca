#include <atomic>
#include <chrono>
#include <future>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "tests/unit/client/served_job.hpp"
#include "tests/unit/client/two_tables.hpp"
#include "worker/client/client.hpp"

namespace taut {
namespace {

using test::JobMaker;
using test::kDeadline;
using test::kTable;
using test::push;
using test::ServedJob;
using test::two_tables;

/// Counts the messages that leave.
class CountingEndpoint final : public Endpoint {
 public:
  CountingEndpoint(std::unique_ptr<Endpoint> inner, std::atomic<int>& sent)
      : inner_(std::move(inner)), sent_(sent) {}

  Result<std::string> bind(const std::string& address) override { return inner_->bind(address); }
  Result<PeerId> connect(const std::string& address) override { return inner_->connect(address); }
  void disconnect(PeerId peer) override { inner_->disconnect(peer); }
  Result<void> send(PeerId to, Message message) override {
    ++sent_;
    return inner_->send(to, std::move(message));
  }
  std::optional<Incoming> receive(Duration wait) override { return inner_->receive(wait); }
  void wake() override { inner_->wake(); }

 private:
  std::unique_ptr<Endpoint> inner_;
  std::atomic<int>& sent_;
};

/// How many messages leave while the tables are pushed at `clocks` clocks, with pauses in which
/// each update could leave alone.
int messages_of(const std::vector<TableSpec>& tables, int clocks) {
  ServedJob served(JobMaker(1, Slack(1), 1));
  std::atomic<int> sent = 0;
  Client client(std::make_unique<CountingEndpoint>(served.context.make_endpoint(), sent),
                served.options(WorkerId(0)));
  REQUIRE(client.open(tables, kDeadline).has_value());
  const int before = sent;
  for (int clock = 0; clock < clocks; ++clock) {
    for (const TableSpec& table : tables) {
      push(client, 0, clock, table.id);
      std::this_thread::sleep_for(std::chrono::milliseconds(5));
    }
  }
  const int after = sent;
  REQUIRE(client.flush(kDeadline).has_value());
  return after - before;
}

}  // namespace

TEST_CASE("small updates leave with the next larger one of their clock", "[client]") {
  const std::vector<TableSpec> tables{test::make_table(0, {4}), test::make_table(1, {8}),
                                      test::make_table(2, {2}), test::make_table(3, {128, 128})};
  constexpr int kClocks = 20;
  const int messages = messages_of(tables, kClocks);
  CHECK(messages >= kClocks / 2);
  CHECK(messages < 2 * kClocks);  // 4 for each if none waited
}

TEST_CASE("a clock's last update waits for no other, however small", "[client]") {
  constexpr int kClocks = 40;
  // One message of what waits would leave each 100 ms.
  CHECK(messages_of({test::make_table(0, {4})}, kClocks) > kClocks / 2);
}

TEST_CASE("a frozen table's update is waited for by no other", "[client]") {
  constexpr int kClocks = 40;
  ServedJob served(JobMaker(1, Slack(1), 1));
  std::atomic<int> sent = 0;
  Client client(std::make_unique<CountingEndpoint>(served.context.make_endpoint(), sent),
                served.options(WorkerId(0)));
  const std::vector<TableSpec> tables{test::make_table(0, {4}),
                                      test::make_table(1, {4}, TableKind::kFrozen)};
  REQUIRE(client.open(tables, kDeadline).has_value());
  const int before = sent;
  for (int clock = 0; clock < kClocks; ++clock) {
    push(client, 0, clock);
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
  CHECK(sent - before > kClocks / 2);
  REQUIRE(client.flush(kDeadline).has_value());
}

TEST_CASE("a wait that is over at once sends the small update before it", "[client]") {
  constexpr int kClocks = 30;
  ServedJob served(JobMaker(1, Slack(1), 1));
  std::atomic<int> sent = 0;
  Client client(std::make_unique<CountingEndpoint>(served.context.make_endpoint(), sent),
                served.options(WorkerId(0)));
  REQUIRE(client.open(two_tables(), kDeadline).has_value());
  std::vector<float> values(4);
  client.read(kTable, Clock(0), values);
  REQUIRE(client.wait(kTable, Clock(0), kDeadline).has_value());
  const int before = sent;
  for (int clock = 0; clock < kClocks; ++clock) {
    push(client, 0, clock);
    REQUIRE(client.wait(kTable, Clock(0), kDeadline).has_value());
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
    push(client, 0, clock, TableId(1));
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
  CHECK(sent - before > 3 * kClocks / 2);  // one for each if the first were held back
  REQUIRE(client.flush(kDeadline).has_value());
}

TEST_CASE("a small update of another thread leaves while the caller waits for it", "[client]") {
  // Without it each clock would take until the leader looks around, 100 ms.
  constexpr int kClocks = 30;
  ServedJob served(JobMaker(1, Slack(0), 1));
  const auto client = served.client(0);
  REQUIRE(client->open(two_tables(), kDeadline).has_value());
  const TimePoint begin = steady_now();
  for (int clock = 0; clock < kClocks; ++clock) {
    std::vector<float> values(4);
    client->read(kTable, Clock(clock + 1), values);
    auto pushed = std::async(std::launch::async, [&] {
      std::this_thread::sleep_for(std::chrono::milliseconds(2));
      push(*client, 0, clock);
    });
    REQUIRE(client->wait(kTable, Clock(clock + 1), kDeadline).has_value());
    pushed.get();
    push(*client, 0, clock, TableId(1));
  }
  CHECK(steady_now() - begin < Duration(kClocks * 60'000));
  REQUIRE(client->flush(kDeadline).has_value());
}

}  // namespace taut
