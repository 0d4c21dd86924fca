#include "server/tables/table_memory.hpp"

#include <array>
#include <optional>
#include <thread>
#include <vector>

#include "tests/support/catch.hpp"

using Catch::Matchers::Contains;

namespace taut::server {

TEST_CASE("tables are taken up to the limit, and the first that does not fit is named",
          "[memory]") {
  const auto memory = std::make_shared<TableMemory>(Bytes(100));
  auto first = memory->take(std::array{TableNeed{"a", 40}, TableNeed{"b", 20}});
  REQUIRE(first.has_value());
  CHECK(memory->taken() == Bytes(60));
  const auto refused = memory->take(std::array{TableNeed{"c", 30}, TableNeed{"d", 11}});
  REQUIRE_FALSE(refused.has_value());
  CHECK_THAT(refused.error().message,
             Contains("table \"d\" needs 11 bytes") && Contains("and 10 of") && Contains("100"));
  CHECK(memory->taken() == Bytes(60));
  CHECK(memory->check(std::array{TableNeed{"c", 40}}).has_value());
  first = TableMemory::Share();
  CHECK(memory->taken() == Bytes(0));
  CHECK(memory->take(std::array{TableNeed{"e", 100}}).has_value());
}

TEST_CASE("what tables take in place of a former share is taken at once", "[memory]") {
  const auto memory = std::make_shared<TableMemory>(Bytes(100));
  auto former = memory->take(std::array{TableNeed{"a", 60}});
  const auto others = memory->take(std::array{TableNeed{"others", 30}});
  REQUIRE(others.has_value());
  auto more = memory->take(std::array{TableNeed{"a", 70}}, std::move(former.value()));
  REQUIRE(more.has_value());
  CHECK(memory->taken() == Bytes(100));
  auto less = memory->take(std::array{TableNeed{"a", 20}}, std::move(more.value()));
  REQUIRE(less.has_value());
  CHECK(memory->taken() == Bytes(50));
  // A former share that does not suffice is given back.
  CHECK_FALSE(memory->take(std::array{TableNeed{"a", 71}}, std::move(less.value())).has_value());
  CHECK(memory->taken() == Bytes(30));
}

TEST_CASE("needs whose sum is beyond any number are refused", "[memory]") {
  const auto memory = std::make_shared<TableMemory>(Bytes(100));
  const std::vector<TableNeed> many(8, {"t", kMaxBytes});
  CHECK_FALSE(memory->check(many).has_value());
  const auto vast = std::make_shared<TableMemory>(Bytes(UINT64_MAX));
  CHECK_FALSE(vast->check(many).has_value());
}

TEST_CASE("shards that take at the same time never take more than there is", "[memory]") {
  const auto memory = std::make_shared<TableMemory>(Bytes(1000));
  std::vector<std::thread> shards;
  std::atomic<int> granted = 0;
  std::array<std::vector<TableMemory::Share>, 4> kept;
  shards.reserve(kept.size());
  for (auto& own : kept) {
    shards.emplace_back([&] {
      for (int i = 0; i < 100; ++i) {
        auto share = memory->take(std::array{TableNeed{"t", 7}});
        if (!share) continue;
        ++granted;
        own.push_back(std::move(share.value()));
      }
    });
  }
  for (std::thread& shard : shards) shard.join();
  CHECK(granted == 1000 / 7);
  CHECK(memory->taken() == Bytes(1000 / 7 * 7));
}

TEST_CASE(
    "spare memory is what tables leave, never keeps a table out, and is released when one needs it",
    "[memory]") {
  const auto memory = std::make_shared<TableMemory>(Bytes(100));
  auto table = memory->take(std::array{TableNeed{"a", 40}});
  REQUIRE(table.has_value());
  CHECK_FALSE(memory->take_spare(Bytes(61)).has_value());
  auto spare = memory->take_spare(Bytes(40));
  REQUIRE(spare.has_value());
  CHECK(memory->taken() == Bytes(40));
  CHECK_FALSE(memory->take_spare(Bytes(21)).has_value());
  CHECK(memory->take_spare(Bytes(20)).has_value());
  auto small = memory->take(std::array{TableNeed{"small", 20}});
  CHECK(small.has_value());
  CHECK_FALSE(memory->is_short());  // 60 taken and 40 spare
  small = TableMemory::Share();
  auto later = memory->take(std::array{TableNeed{"b", 60}});
  CHECK(later.has_value());
  CHECK(memory->is_short());
  spare.reset();
  CHECK_FALSE(memory->is_short());
  CHECK_FALSE(memory->take_spare(Bytes(1)).has_value());
  later = TableMemory::Share();
  CHECK(memory->take_spare(Bytes(60)).has_value());
}

TEST_CASE("spare memory that is taken while tables are is either refused or known to be too much",
          "[memory]") {
  const auto memory = std::make_shared<TableMemory>(Bytes(100));
  for (int round = 0; round < 200; ++round) {
    std::optional<TableMemory::Share> spare;
    TableMemory::Share table;
    std::thread other([&] { spare = memory->take_spare(Bytes(60)); });
    if (auto taken = memory->take(std::array{TableNeed{"t", 60}})) table = std::move(taken.value());
    other.join();
    REQUIRE(memory->taken() == Bytes(60));
    REQUIRE(memory->is_short() == spare.has_value());
  }
}

}  // namespace taut::server
