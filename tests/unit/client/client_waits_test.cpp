#include <atomic>
#include <cstdint>
#include <future>
#include <thread>
#include <utility>
#include <vector>

#include "tests/unit/client/served_job.hpp"
#include "tests/unit/client/two_tables.hpp"
#include "worker/client/client.hpp"

using Catch::Matchers::Contains;

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

}  // namespace

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

TEST_CASE("the next update's memory is waited for while backups lag, and no longer than allowed",
          "[client]") {
  // Its shard has no backup, so that the other worker's update is what makes this one's safe.
  JobMaker maker(2);
  maker.state.set_replication_interval(4);
  ServedJob served(std::move(maker));
  ClientOptions options = served.options(WorkerId(0), Duration(100'000));
  options.replicated = true;
  options.max_kept = Bytes(1);
  const auto slow = served.client(1);
  REQUIRE(slow->open(two_tables(), kDeadline).has_value());
  constexpr TableId kLarge{1};
  const auto push_clock = [](Client& client, std::uint32_t worker, std::int64_t clock) {
    push(client, worker, clock, kTable);
    push(client, worker, clock, kLarge);
  };
  SECTION("until they are up to date") {
    options.max_room_wait = 2 * kDeadline;
    Client fast(served.context.make_endpoint(), options);
    REQUIRE(fast.open(two_tables(), kDeadline).has_value());
    push_clock(fast, 0, 0);
    push_clock(fast, 0, 1);  // next to one clock's updates there is room for another's
    REQUIRE(fast.flush(kDeadline, 1).has_value());
    std::atomic<bool> is_pushed = false;
    auto late = std::async(std::launch::async, [&] {
      std::this_thread::sleep_for(kSoon);
      is_pushed = true;
      push_clock(*slow, 1, 0);
    });
    const TimePoint begin = steady_now();
    CHECK(fast.gradient_buffer(kLarge).size() == 24);
    CHECK(is_pushed);
    CHECK(steady_now() - begin < kDeadline);
    late.get();
  }
  SECTION("once in vain") {
    options.max_room_wait = Duration(1'000'000);
    Client fast(served.context.make_endpoint(), options);
    REQUIRE(fast.open(two_tables(), kDeadline).has_value());
    push_clock(fast, 0, 0);
    push(fast, 0, 1, kLarge);  // 16 bytes are left
    REQUIRE(fast.flush(kDeadline, 1).has_value());
    TimePoint begin = steady_now();
    CHECK(fast.gradient_buffer(kLarge).size() == 24);
    CHECK(steady_now() - begin >= options.max_room_wait);
    CHECK(fast.gradient_buffer(kTable).size() == 16);
    begin = steady_now();
    CHECK(fast.gradient_buffer(kLarge).size() == 24);
    CHECK(steady_now() - begin < options.max_room_wait);
  }
}

}  // namespace taut
