#include <algorithm>
#include <atomic>
#include <cstdint>
#include <cstring>
#include <memory>
#include <mutex>
#include <set>
#include <span>
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

}  // namespace

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
    // An owner that still holds the memory keeps it from being given out again.
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

}  // namespace taut
