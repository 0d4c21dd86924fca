#include "worker/client/client.hpp"

#include <algorithm>
#include <atomic>
#include <cstring>
#include <future>
#include <map>
#include <memory>
#include <mutex>
#include <random>
#include <set>

#include "proto/config/settle_compression.hpp"
#include "proto/wire_version.hpp"
#include "tests/unit/client/served_job.hpp"

using Catch::Matchers::Contains;

namespace taut {
namespace {

using test::JobMaker;
using test::kDeadline;
using test::same_bits;
using test::ServedJob;

constexpr Duration kSoon{30'000};
const TableId kTable{0};

std::vector<TableSpec> two_tables() {
  return {test::make_table(0, {4}), test::make_table(1, {2, 3})};
}

void push(Client& client, std::uint32_t worker, std::int64_t clock, TableId table = kTable) {
  const Buffer gradient = client.gradient_buffer(table);
  const auto values = test::gradient_of(worker, clock, gradient.floats().size());
  std::ranges::copy(values, gradient.floats().begin());
  client.push(table, Clock(clock), gradient);
}

void push_and_read_all(Client& client, std::uint32_t worker, const std::vector<TableSpec>& tables,
                       std::span<float> into) {
  push(client, worker, 0, TableId(1));
  const Buffer gradient = client.gradient_buffer(kTable);
  const auto values = test::gradient_of(worker, 0, tables[0].count());
  std::ranges::copy(values, gradient.floats().begin());
  client.push_and_read(kTable, Clock(0), gradient, into);
}

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

/// How many messages leave while the tables are pushed at so many clocks, with pauses in which each
/// update could leave alone.
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
  // Of what waits, one message would leave each 100 ms.
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

TEST_CASE("a client opens tables, pushes, and reads its own writes", "[client]") {
  ServedJob served(JobMaker(1, Slack(1), 2));
  const auto client = served.client(0);
  REQUIRE(client->open(two_tables(), kDeadline).has_value());
  std::vector<float> values(6);
  client->read(TableId(1), Clock(0), values);
  auto result = client->wait(TableId(1), Clock(0), kDeadline);
  REQUIRE(result.has_value());
  CHECK(result.value().version == Clock(0));
  const auto before = values;
  const Buffer gradient = client->gradient_buffer(TableId(1));
  std::ranges::fill(gradient.floats(), 1.0F);
  client->push_and_read(TableId(1), Clock(0), gradient, values);
  result = client->wait(TableId(1), Clock(1), kDeadline);
  REQUIRE(result.has_value());
  CHECK(result.value().version == Clock(1));
  for (std::size_t i = 0; i < 6; ++i) CHECK(values[i] == Approx(before[i] - 0.5F));
  CHECK(client->flush(kDeadline).has_value());
  CHECK(client->traffic().pushed == 24);
  CHECK(client->traffic().read == 48);
}

TEST_CASE("updates are in the client's memory, which is returned to it", "[client]") {
  /// Knows what it gave and was not given back.
  class Watched final : public BufferAllocator {
   public:
    void* allocate(std::size_t size) override {
      void* const memory = host_allocator()->allocate(size);
      std::scoped_lock lock(mutex_);
      out_.insert(memory);
      return memory;
    }
    void deallocate(void* memory, std::size_t size) noexcept override {
      host_allocator()->deallocate(memory, size);
      std::scoped_lock lock(mutex_);
      out_.erase(memory);
    }
    [[nodiscard]] bool gave(void* memory) {
      std::scoped_lock lock(mutex_);
      return out_.contains(memory);
    }

   private:
    std::mutex mutex_;
    std::set<void*> out_;
  };
  const auto memory = std::make_shared<Watched>();
  ServedJob served(JobMaker(1));
  ClientOptions options = served.options(WorkerId(0));
  options.update_memory = memory;
  {
    Client client(served.context.make_endpoint(), options);
    REQUIRE(client.open(two_tables(), kDeadline).has_value());
    const Buffer first = client.gradient_buffer(kTable);
    CHECK(memory->gave(first.data()));
    std::ranges::fill(first.floats(), 1.0F);
    client.push(kTable, Clock(0), first);
    // Whoever still holds the memory keeps it from being given out again.
    CHECK(client.gradient_buffer(kTable).data() != first.data());
    REQUIRE(client.flush(kDeadline).has_value());
  }
}

TEST_CASE("a client without a thread moves bytes in work() and while its caller waits",
          "[client]") {
  ServedJob served(JobMaker(1, Slack(1), 2));
  ClientOptions options = served.options(WorkerId(0));
  options.own_thread = false;
  Client client(served.context.make_endpoint(), options);
  REQUIRE(client.open(two_tables(), kDeadline).has_value());
  std::vector<float> values(4);
  client.read(kTable, Clock(0), values);
  REQUIRE(client.wait(kTable, Clock(0), kDeadline).has_value());
  push(client, 0, 0);
  push(client, 0, 0, TableId(1));
  const Duration no_wait{0};
  CHECK_FALSE(client.flush(no_wait).has_value());
  const TimePoint deadline = steady_now() + kDeadline;
  bool arrived = false;
  while (!arrived && steady_now() < deadline) {
    client.work();
    arrived = client.flush(no_wait).has_value();
  }
  CHECK(arrived);
  CHECK(client.traffic().pushed == 40);
}

TEST_CASE("each read is reported before it can be waited for", "[client]") {
  ServedJob served(JobMaker(1));
  const auto client = served.client(0);
  REQUIRE(client->open(two_tables(), kDeadline).has_value());
  std::atomic<std::int64_t> notified = -1;
  client->on_read([&](TableId table, Clock clock) {
    if (table == kTable) notified = clock.value();
  });
  std::vector<float> values(4);
  client->read(kTable, Clock(0), values);
  REQUIRE(client->wait(kTable, Clock(0), kDeadline).has_value());
  CHECK(notified == 0);
  // Snapshots are no reads, and nothing is told any more once that is said.
  REQUIRE(client->snapshot(kTable, values, kDeadline).has_value());
  client->on_read({});
  const Buffer gradient = client->gradient_buffer(kTable);
  std::ranges::fill(gradient.floats(), 1.0F);
  client->push_and_read(kTable, Clock(0), gradient, values);
  REQUIRE(client->wait(kTable, Clock(1), kDeadline).has_value());
  CHECK(notified == 0);
}

TEST_CASE("values that are read are given away instead of copied, and those of snapshots are not",
          "[client]") {
  ServedJob served(JobMaker(1));
  const auto client = served.client(0);
  REQUIRE(client->open(two_tables(), kDeadline).has_value());
  std::vector<float> copied(4, -1.0F);
  client->read(kTable, Clock(0), copied);
  REQUIRE(client->wait(kTable, Clock(0), kDeadline).has_value());
  CHECK(std::ranges::count(copied, -1.0F) == 0);
  std::vector<float> into(4, -1.0F);
  std::vector<float> given(4);
  client->on_values([&](std::span<float> at, const Frame& values) {
    std::memcpy(given.data() + (at.data() - into.data()), values.bytes().data(), values.size());
  });
  client->read(kTable, Clock(0), into);
  REQUIRE(client->wait(kTable, Clock(0), kDeadline).has_value());
  CHECK(given == copied);
  CHECK(into == std::vector<float>(4, -1.0F));
  REQUIRE(client->snapshot(kTable, into, kDeadline).has_value());
  CHECK(into == copied);
}

TEST_CASE("a read under BSP waits for the other workers, and each read's staleness is counted",
          "[client]") {
  ServedJob served(JobMaker(2));
  const auto fast = served.client(0);
  const auto slow = served.client(1);
  REQUIRE(fast->open(two_tables(), kDeadline).has_value());
  REQUIRE(slow->open(two_tables(), kDeadline).has_value());
  std::vector<float> values(4);
  push(*fast, 0, 0);
  fast->read(kTable, Clock(1), values);
  const auto early = fast->wait(kTable, Clock(1), kSoon);
  REQUIRE_FALSE(early.has_value());
  CHECK(early.error().code == ErrorCode::kTimeout);
  CHECK_THAT(early.error().message, Contains("table 0") && Contains("clock 1"));
  push(*slow, 1, 0);
  CHECK(fast->wait(kTable, Clock(1), kDeadline).value().version == Clock(1));
  CHECK(fast->staleness() == StalenessHistogram{{0, 1}});
}

TEST_CASE("a histogram of staleness stays short, however far a worker is ahead", "[client]") {
  StalenessHistogram reads;
  constexpr std::int64_t kReads = 1 << 20;
  for (std::int64_t staleness = 0; staleness < kReads; ++staleness) count_read(reads, staleness);
  // A Progress may have 65,536 of them.
  CHECK(reads.size() == 1024 + 10 * 512);
  std::uint64_t counted = 0;
  for (const auto& [staleness, count] : reads) counted += count;
  CHECK(counted == static_cast<std::uint64_t>(kReads));
  CHECK(reads.at(1023) == 1);
  CHECK(reads.at(1024) == 2);
  CHECK_FALSE(reads.contains(1025));
  CHECK(reads.rbegin()->first == kReads - 1024);
  count_read(reads, -1);
  CHECK(reads.at(0) == 2);
}

TEST_CASE("a read waits for others for longer than its shard may be silent", "[client]") {
  ServedJob served(JobMaker(2));
  Client fast(served.context.make_endpoint(), served.options(WorkerId(0), Duration(100'000)));
  const auto slow = served.client(1);
  REQUIRE(fast.open(two_tables(), kDeadline).has_value());
  REQUIRE(slow->open(two_tables(), kDeadline).has_value());
  std::vector<float> values(4);
  push(fast, 0, 0);
  fast.read(kTable, Clock(1), values);
  constexpr Duration kSilence{2'000'000};
  auto late = std::async(std::launch::async, [&] {
    std::this_thread::sleep_for(2 * kSilence);
    push(*slow, 1, 0);
  });
  CHECK(fast.wait(kTable, Clock(1), kSilence).value().version == Clock(1));
  late.get();
}

TEST_CASE("a snapshot waits for no worker", "[client]") {
  ServedJob served(JobMaker(2, Slack(0), 2));
  const auto client = served.client(0);
  REQUIRE(client->open(two_tables(), kDeadline).has_value());
  std::vector<float> first(4);
  std::vector<float> second(4);
  CHECK(client->snapshot(kTable, first, kDeadline).value().version == Clock(0));
  push(*client, 0, 0);
  REQUIRE(client->flush(kDeadline).has_value());
  CHECK(client->snapshot(kTable, second, kDeadline).value().version == Clock(0));
  CHECK(same_bits(first, second));
}

TEST_CASE("opening, snapshots and flushing are waited for in steps, with one deadline",
          "[client]") {
  const Duration step(5'000);
  SECTION("of shards that answer each is done after some steps") {
    ServedJob served(JobMaker(2, Slack(0), 2));
    const auto client = served.client(0);
    client->begin_open(two_tables());
    const auto in_steps = [&](const auto& one) {
      for (int i = 0; i < 2000; ++i) {
        const auto done = one();
        REQUIRE(done.has_value());
        if (done.value()) return true;
      }
      return false;
    };
    CHECK(in_steps([&] { return client->await_open(kDeadline, step); }));
    push(*client, 0, 0);
    CHECK(in_steps([&] { return client->flush_for(kDeadline, step); }));
    std::vector<float> values(4, -1.0F);
    CHECK(in_steps([&] { return client->snapshot(kTable, values, kDeadline, step); }));
    CHECK(values != std::vector<float>(4, -1.0F));
  }
  SECTION("a shard that says nothing ends the steps at the deadline of the first") {
    ServedJob served(JobMaker(1));
    ClientOptions options = served.options(WorkerId(0));
    options.shards[0].address = "127.0.0.1:1";
    Client client(served.context.make_endpoint(), options);
    client.begin_open(two_tables());
    const auto first = client.await_open(kSoon, step);
    REQUIRE(first.has_value());
    CHECK_FALSE(first.value());
    for (int i = 0; i < 1000; ++i) {
      const auto next = client.await_open(kSoon, step);
      if (next) continue;
      CHECK(next.error().code == ErrorCode::kTimeout);
      return;
    }
    FAIL("no step ended");
  }
}

TEST_CASE("all workers must name the same tables: other ones are refused with both names",
          "[client]") {
  ServedJob served(JobMaker(2));
  const auto one = served.client(0);
  const auto two = served.client(1);
  REQUIRE(one->open(two_tables(), kDeadline).has_value());
  auto other = two_tables();
  other[1].shape = {7};
  const auto refused = two->open(other, kDeadline);
  REQUIRE_FALSE(refused.has_value());
  CHECK(refused.error().code == ErrorCode::kMismatch);
  CHECK_THAT(refused.error().message, Contains("6 elements") && Contains("7 elements"));
}

TEST_CASE("a client of another job is refused with both hashes", "[client]") {
  ServedJob served(JobMaker(1));
  ClientOptions options = served.options(WorkerId(0));
  options.job_hash = std::string(64, 'd');
  Client client(served.context.make_endpoint(), options);
  const auto refused = client.open(two_tables(), kDeadline);
  REQUIRE_FALSE(refused.has_value());
  CHECK(refused.error().code == ErrorCode::kMismatch);
  CHECK_THAT(refused.error().message,
             Contains("dddddddddddd") && Contains(served.job.hash().substr(0, 12)));
}

TEST_CASE("a worker that was declared lost learns it from its next message", "[client]") {
  ServedJob served(JobMaker(2));
  const auto client = served.client(1);
  REQUIRE(client->open(two_tables(), kDeadline).has_value());
  served.job.leave(WorkerId(1), Clock(0));
  served.change();
  push(*client, 1, 0);
  const auto refused = client->flush(kDeadline);
  REQUIRE_FALSE(refused.has_value());
  CHECK(refused.error().code == ErrorCode::kStale);
  CHECK_THAT(refused.error().message, Contains("stale incarnation"));
}

TEST_CASE("raising the slack of a running job releases a client that waits", "[client]") {
  ServedJob served(JobMaker(2, Slack(1)));
  const auto client = served.client(0);
  REQUIRE(client->open(two_tables(), kDeadline).has_value());
  for (std::int64_t clock = 0; clock < 3; ++clock) push(*client, 0, clock);
  std::vector<float> values(4);
  client->read(kTable, Clock(3), values);
  CHECK_FALSE(client->wait(kTable, Clock(3), kSoon).has_value());
  served.job.state.set_slack(Slack::unbounded().clocks());
  served.change();
  const auto result = client->wait(kTable, Clock(3), kDeadline);
  REQUIRE(result.has_value());
  CHECK(result.value().version == Clock(0));
  CHECK(client->staleness() == StalenessHistogram{{3, 1}});
}

TEST_CASE("updates wait out the preparation of an epoch", "[client]") {
  ServedJob served(JobMaker(1));
  const auto client = served.client(0);
  REQUIRE(client->open(two_tables(), kDeadline).has_value());
  served.job.state.set_hold_from(1);
  served.change();
  push(*client, 0, 0);
  push(*client, 0, 1);
  const auto held = client->flush(kSoon);
  REQUIRE_FALSE(held.has_value());
  CHECK(held.error().code == ErrorCode::kTimeout);
  served.job.state.set_hold_from(Clock::never().value());
  served.change();
  CHECK(client->flush(kDeadline).has_value());
}

TEST_CASE("a client without reachable shards fails at its deadline", "[client]") {
  ServedJob served(JobMaker(1));
  ClientOptions options = served.options(WorkerId(0));
  options.shards[0].address = "127.0.0.1:1";
  Client client(served.context.make_endpoint(), options);
  const auto refused = client.open(two_tables(), kSoon);
  REQUIRE_FALSE(refused.has_value());
  CHECK(refused.error().code == ErrorCode::kTimeout);
  CHECK_THAT(refused.error().message, Contains("shard 0 at 127.0.0.1:1 has not answered for"));
  REQUIRE(options.load->silent().has_value());
  CHECK(options.load->silent()->shard == ShardId(0));
  const TimePoint begin = steady_now();
  client.close();
  CHECK(steady_now() - begin < Duration(5'000'000));
}

TEST_CASE("a shard that opens large tables may be silent while it makes their values", "[client]") {
  ServedJob served(JobMaker(1));
  ClientOptions options = served.options(WorkerId(0));
  options.shards.resize(1);
  options.shards[0].address = "127.0.0.1:1";
  Client client(served.context.make_endpoint(), options);
  std::vector<TableSpec> tables = two_tables();
  tables[0].shape = {1024, 4096};  // 16 MiB: a second
  const TimePoint begin = steady_now();
  const auto refused = client.open(tables, Duration(10'000));
  REQUIRE_FALSE(refused.has_value());
  CHECK_THAT(refused.error().message, Contains("shard 0 at 127.0.0.1:1 has not answered for 1."));
  CHECK(steady_now() - begin >= Duration(1'000'000));
}

TEST_CASE("cancelling ends a wait at once, and closing ends the writing into memory", "[client]") {
  ServedJob served(JobMaker(2));
  const auto client = served.client(0);
  REQUIRE(client->open(two_tables(), kDeadline).has_value());
  push(*client, 0, 0);
  std::vector<float> values(4);
  client->read(kTable, Clock(1), values);
  auto waiting =
      std::async(std::launch::async, [&] { return client->wait(kTable, Clock(1), kDeadline); });
  client->cancel();
  const auto result = waiting.get();
  REQUIRE_FALSE(result.has_value());
  CHECK(result.error().code == ErrorCode::kClosed);
  client->close();
  const auto untouched = values;
  const auto other = served.client(1);
  REQUIRE(other->open(two_tables(), kDeadline).has_value());
  push(*other, 1, 0);
  REQUIRE(other->flush(kDeadline).has_value());
  CHECK(values == untouched);
}

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

TEST_CASE("values are read as the job's compression says, as bytes and in shared memory",
          "[client]") {
  constexpr std::size_t kCount = 6000;
  for (const auto scheme :
       {pb::PullCompression::FP16, pb::PullCompression::BF16, pb::PullCompression::INT8}) {
    for (const bool shares : {false, true}) {
      JobMaker maker(1);
      auto& pull = *maker.state.mutable_definition()->mutable_compression()->add_pull();
      pull.set_scheme(scheme);
      pull.set_min_values(100);
      ServedJob served(std::move(maker));
      const Compression compression = to_compression(served.job.state.definition()).value();
      const std::vector<TableSpec> tables = {test::make_table(0, {kCount}),
                                             test::make_table(1, {50})};
      const math::Encoding encoding = compression.of_pull(tables[0]);
      ClientOptions options = served.options(WorkerId(0));
      options.encoding = {compression, 42, 0};
      if (shares) options.shared_memory = SharedArena::create().value();
      Client client(served.context.make_endpoint(), options);
      REQUIRE(client.open(tables, kDeadline).has_value());
      std::vector<float> values(kCount);
      std::vector<float> small(50);
      client.read(kTable, Clock(0), values);
      client.read(TableId(1), Clock(0), small);
      REQUIRE(client.wait(kTable, Clock(0), kDeadline).has_value());
      REQUIRE(client.wait(TableId(1), Clock(0), kDeadline).has_value());
      std::vector<float> exact(kCount);
      REQUIRE(client.snapshot(kTable, exact, kDeadline).has_value());
      std::vector<std::byte> bytes(math::encoded_bytes(encoding, kCount));
      math::encode(encoding, exact, math::draw_of(42, 0, 65535, 0, 0), bytes.data());
      std::vector<float> expected(kCount);
      math::decode(encoding, bytes.data(), kCount, 0, expected);
      CHECK(same_bits(values, expected));
      CHECK_FALSE(same_bits(values, exact));
      const Client::Traffic traffic = client.traffic();
      CHECK(traffic.read == bytes.size() + (kCount + 50) * sizeof(float));
      CHECK(traffic.read_saved == kCount * sizeof(float) - bytes.size());
    }
  }
}

TEST_CASE("an encoding that is longer than what it encodes saves nothing", "[client]") {
  JobMaker maker(1);
  pb::Compression& chosen = *maker.state.mutable_definition()->mutable_compression();
  chosen.add_push()->set_scheme(pb::PushCompression::INT8);
  chosen.mutable_push(0)->set_min_values(1);
  chosen.add_pull()->set_scheme(pb::PullCompression::INT8);
  chosen.mutable_pull(0)->set_min_values(1);
  ServedJob served(std::move(maker));
  ClientOptions options = served.options(WorkerId(0));
  options.encoding = {to_compression(served.job.state.definition()).value(), 42, 0};
  Client client(served.context.make_endpoint(), options);
  const std::vector<TableSpec> tables = {test::make_table(0, {1})};
  REQUIRE(client.open(tables, kDeadline).has_value());
  std::vector<float> value(1);
  client.push_and_read(kTable, Clock(0), client.gradient_buffer(kTable), value);
  REQUIRE(client.wait(kTable, Clock(1), kDeadline).has_value());
  const Client::Traffic traffic = client.traffic();
  CHECK(traffic.pushed == 5);
  CHECK(traffic.read == 5);
  CHECK(traffic.saved == 0);
  CHECK(traffic.read_saved == 0);
}

TEST_CASE("updates arrive as the job's compression says, as bytes and in shared memory",
          "[client]") {
  constexpr std::size_t kCount = 6000;
  for (const auto scheme :
       {pb::PushCompression::FP16, pb::PushCompression::BF16, pb::PushCompression::INT8,
        pb::PushCompression::ONE_BIT, pb::PushCompression::TOP_K, pb::PushCompression::RANDOM_K}) {
    for (const bool shares : {false, true}) {
      JobMaker maker(2);
      auto& push = *maker.state.mutable_definition()->mutable_compression()->add_push();
      push.set_scheme(scheme);
      push.set_min_values(100);
      ServedJob served(std::move(maker));
      const Compression compression = to_compression(served.job.state.definition()).value();
      const std::vector<TableSpec> tables = {test::make_table(0, {kCount}),
                                             test::make_table(1, {50})};
      const math::Encoding encoding = compression.of_push(tables[0]);
      std::vector<std::unique_ptr<Client>> clients;
      std::vector<std::vector<float>> values(2, std::vector<float>(kCount));
      std::vector<float> mean(kCount, 0.0F);
      for (std::uint32_t i = 0; i < 2; ++i) {
        ClientOptions options = served.options(WorkerId(i));
        options.encoding = {compression, 42, i};
        if (shares) options.shared_memory = SharedArena::create().value();
        clients.push_back(std::make_unique<Client>(served.context.make_endpoint(), options));
        REQUIRE(clients[i]->open(tables, kDeadline).has_value());
        clients[i]->read(kTable, Clock(0), values[i]);
        REQUIRE(clients[i]->wait(kTable, Clock(0), kDeadline).has_value());
        // What a shard must read of it.
        const auto gradient = test::gradient_of(i, 0, kCount);
        std::vector<std::byte> bytes(math::encoded_bytes(encoding, kCount));
        std::vector<float> state(math::state_values(encoding, kCount));
        math::encode(encoding, gradient, math::draw_of(42, 0, i, 0, 0), bytes.data(), state);
        std::vector<float> read(kCount);
        math::decode(encoding, bytes.data(), kCount, 0, read);
        CHECK_FALSE(same_bits(read, gradient));
        for (std::size_t k = 0; k < kCount; ++k) mean[k] += read[k];
      }
      const std::vector<float> before = values[0];
      for (std::uint32_t i = 0; i < 2; ++i) {
        push_and_read_all(*clients[i], i, tables, values[i]);
      }
      for (std::uint32_t i = 0; i < 2; ++i) {
        REQUIRE(clients[i]->wait(kTable, Clock(1), kDeadline).has_value());
        REQUIRE(clients[i]->flush(kDeadline).has_value());
        const Client::Traffic traffic = clients[i]->traffic();
        CHECK(traffic.pushed == math::encoded_bytes(encoding, kCount) + 50 * sizeof(float));
        CHECK(traffic.pushed + traffic.saved == (kCount + 50) * sizeof(float));
      }
      CHECK(same_bits(values[0], values[1]));
      for (std::size_t k = 0; k < kCount; ++k) {
        CHECK(values[0][k] == Approx(before[k] - 0.25F * mean[k]).margin(1e-5));
      }
    }
  }
}

TEST_CASE("an update in another encoding than the job's ends its client with both names",
          "[client]") {
  JobMaker maker(1);
  auto& given = *maker.state.mutable_definition()->mutable_compression()->add_push();
  given.set_scheme(pb::PushCompression::INT8);
  given.set_min_values(1);
  ServedJob served(std::move(maker));
  const auto client = served.client(0);
  REQUIRE(client->open(two_tables(), kDeadline).has_value());
  push(*client, 0, 0);
  const auto flushed = client->flush(kDeadline);
  REQUIRE_FALSE(flushed.has_value());
  CHECK_THAT(
      flushed.error().message,
      Contains("table 0 is pushed as FLOAT32 at clock 0; by the job's compression it is INT8"));
}

}  // namespace taut
