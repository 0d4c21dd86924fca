#include <array>
#include <cstdint>
#include <memory>
#include <vector>

#include "tests/unit/server/checkpoints/service.hpp"

namespace taut::server {
namespace {

using test::job_of;
using test::Service;

}  // namespace

TEST_CASE("memory for a checkpoint is prepared before its clock, and serves the next one too",
          "[checkpoint]") {
  Service service(job_of(2, Slack(0)), 1);
  service.push_all(0, 2);
  service.order(1, 4);
  const std::vector<SpareStock> stocks = service.stocks();
  REQUIRE(stocks.size() == 1);
  CHECK(service.ready() == 0);
  stocks[0].fill(false);
  // Two trained tables and an averaged one; no worker writes to the frozen one.
  CHECK(service.ready() == 3 * BufferPool::rounded_size(1));
  const int before = service.allocations();
  std::int64_t clock = 2;
  for (std::uint64_t number = 1; number < 4; ++number) {
    service.push_all(clock, clock + 2);
    clock += 2;
    std::vector<ShardCapture> captures = service.captures();
    REQUIRE(captures.size() == 1);
    CHECK_FALSE(captures[0].missed);
    service.push_all(clock, clock + 1);  // writes while the capture holds its copy
    CHECK(service.ready() == 0);
    captures.clear();
    CHECK(service.ready() == 3 * BufferPool::rounded_size(1));
    ++clock;
    service.order(number + 1, clock + 2);
    for (const SpareStock& stock : service.stocks()) stock.fill(false);
  }
  CHECK(service.allocations() == before);
}

TEST_CASE("memory that would be ready too late is not prepared", "[checkpoint]") {
  Service service(job_of(1, Slack(0)), 1);
  service.order(1, 1);
  const std::vector<SpareStock> stocks = service.stocks();
  REQUIRE(stocks.size() == 1);
  service.push_all(0, 1);
  const int before = service.allocations();
  stocks[0].fill(false);
  CHECK(service.allocations() == before);
  // The next order's is.
  CHECK(service.captures().size() == 1);
  service.order(2, 3);
  const std::vector<SpareStock> next = service.stocks();
  REQUIRE(next.size() == 1);
  next[0].fill(true);
  CHECK(service.allocations() == before);
}

TEST_CASE("memory is prepared only if the tables leave enough below the limit", "[checkpoint]") {
  // Adam: three numbers each for 37 trained elements, one each for 9 averaged and 4 frozen ones; in
  // four slices.
  const std::uint64_t tables_bytes = (3 * 37 + 9 + 4) * sizeof(float) + 4 * kSliceBytes;
  const std::uint64_t spare_bytes = (3 + 2 * 2) * BufferPool::rounded_size(1);
  const auto tight = std::make_shared<TableMemory>(Bytes(tables_bytes + spare_bytes - 1));
  Service without(job_of(1, Slack(0)), 1, {}, tight);
  REQUIRE(without.opened.accepted());
  without.order(1, 1);
  CHECK(without.stocks().empty());
  without.push_all(0, 1);
  CHECK(without.captures().size() == 1);

  const auto memory = std::make_shared<TableMemory>(Bytes(tables_bytes + spare_bytes));
  Service service(job_of(1, Slack(0)), 1, {}, memory);
  service.order(1, 2);
  const std::vector<SpareStock> stocks = service.stocks();
  REQUIRE(stocks.size() == 1);
  CHECK(stocks[0].bytes() == spare_bytes);
  stocks[0].fill(false);
  CHECK(service.ready() > 0);
  // Another job's tables come first: with the next message the memory is given back.
  const auto other = memory->take(std::array{TableNeed{"other", 1}});
  REQUIRE(other.has_value());
  service.push_all(0, 1);
  CHECK(service.ready() == 0);
  CHECK(memory->is_short());  // until it is the system's
  CHECK(service.excesses().size() == 1);
  CHECK_FALSE(memory->is_short());
  service.push_all(1, 2);
  CHECK(service.captures().size() == 1);
  service.order(2, 4);
  CHECK(service.stocks().empty());
  CHECK(service.excesses().empty());
  CHECK(service.ready() == 0);
  service.push_all(2, 5);
  const auto captures = service.captures();
  REQUIRE(captures.size() == 1);
  CHECK_FALSE(captures[0].missed);
}

TEST_CASE("a shard without messages gives prepared memory to tables too", "[checkpoint]") {
  const auto memory = std::make_shared<TableMemory>(Bytes(1 << 20));
  Service service(job_of(1, Slack(0)), 1, {}, memory);
  service.order(1, 2);
  for (const SpareStock& stock : service.stocks()) stock.fill(false);
  const std::uint64_t ready = service.ready();
  CHECK(ready > 0);
  service.idle();
  CHECK(service.ready() == ready);
  const std::uint64_t left = memory->limit().value() - memory->taken().value();
  const auto other = memory->take(std::array{TableNeed{"other", left}});
  REQUIRE(other.has_value());
  service.idle();
  CHECK(service.ready() == 0);
  CHECK(service.excesses().size() == 1);
  CHECK_FALSE(memory->is_short());
}

TEST_CASE("memory is not prepared if tables took it meanwhile", "[checkpoint]") {
  const auto memory = std::make_shared<TableMemory>(Bytes(1 << 20));
  Service service(job_of(1, Slack(0)), 1, {}, memory);
  service.order(1, 2);
  const std::vector<SpareStock> stocks = service.stocks();
  REQUIRE(stocks.size() == 1);
  const std::uint64_t left = memory->limit().value() - memory->taken().value();
  const auto other = memory->take(std::array{TableNeed{"other", left}});
  REQUIRE(other.has_value());
  service.idle();
  stocks[0].fill(false);
  CHECK(service.ready() == 0);
}

TEST_CASE("prepared memory is freed when no further checkpoint is ordered, and with the job",
          "[checkpoint]") {
  const bool ends = GENERATE(false, true);
  CAPTURE(ends);
  const auto memory = std::make_shared<TableMemory>(Bytes(1 << 20));
  Service service(job_of(1, Slack(0)), 1, {}, memory);
  service.order(1, 2);
  for (const SpareStock& stock : service.stocks()) stock.fill(false);
  CHECK(service.ready() > 0);
  if (ends) {
    service.job.state.set_finished(true);
  } else {
    service.job.state.clear_checkpoint();
  }
  service.publish();
  CHECK(service.ready() == 0);
  CHECK(service.excesses().size() == 1);
  const std::uint64_t left = memory->limit().value() - memory->taken().value();
  CHECK(memory->take_spare(Bytes(left)).has_value());
  if (ends) return;
  // The next order finds room again.
  service.order(2, 4);
  const std::vector<SpareStock> next = service.stocks();
  REQUIRE(next.size() == 1);
  next[0].fill(false);
  CHECK(service.ready() == 3 * BufferPool::rounded_size(1));
}

TEST_CASE("spare memory that is requested again for one order is taken once", "[checkpoint]") {
  const auto view = job_of(1, Slack(0)).view();
  const TableSpec table = test::make_table(0, {64});
  const SliceLayout layout(std::vector{table}, std::vector{ShardId(0)});
  BufferPool values(Bytes(0));
  BufferPool states(Bytes(0));
  const SliceState slice(table, layout.slices()[0], *view, values, PushSchedule{}, nullptr,
                         &states);
  const std::vector<const SliceState*> slices{&slice};
  const std::uint64_t spare_bytes = 3 * BufferPool::rounded_size(64 * sizeof(float));
  const auto memory = std::make_shared<TableMemory>(Bytes(spare_bytes));
  SpareMemory spares(values, states);
  for (int i = 0; i < 3; ++i) {
    const auto stock = spares.prepare(slices, memory);
    REQUIRE(stock.has_value());
    CHECK(stock->bytes() == spare_bytes);
    stock->fill(false);
    CHECK(values.usage().kept.value() + states.usage().kept.value() == spare_bytes);
  }
  CHECK(spares.give_back().has_value());
  CHECK_FALSE(spares.give_back().has_value());
  CHECK(values.usage().kept.value() + states.usage().kept.value() == 0);
  CHECK(memory->take_spare(Bytes(spare_bytes)).has_value());
}

}  // namespace taut::server
