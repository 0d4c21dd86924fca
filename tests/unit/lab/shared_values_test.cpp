#include "lab/training/shared_values.hpp"

#include <sys/mman.h>

#include <algorithm>
#include <cmath>

#include "tests/support/catch.hpp"
#include "worker/engine/cpu/cpu_backend.hpp"

namespace taut::lab {
namespace {

std::vector<TableSpec> two_tables() {
  std::vector<TableSpec> tables(2);
  tables[0].id = TableId(0);
  tables[0].shape = {3, 700};
  tables[1].id = TableId(1);
  tables[1].shape = {5};
  return tables;
}

Frame frame_of(const std::vector<float>& values) {
  return Frame::copy_of(std::as_bytes(std::span(values)));
}

/// As a client gives a table's values: in two parts, of which the later one arrives first.
void arrive(SharedValues& memory, TableId table, const std::vector<float>& values) {
  const std::span<float> into = memory.fresh(table);
  REQUIRE(into.size() == values.size());
  const std::size_t middle = values.size() / 3;
  const auto at = values.begin() + static_cast<std::ptrdiff_t>(middle);
  memory.take(into.subspan(middle), frame_of({at, values.end()}));
  memory.take(into.first(middle), frame_of({values.begin(), at}));
  memory.bring(table);
}

void fill(SharedValues& memory, TableId table, float value) {
  arrive(memory, table, std::vector<float>(table == TableId(0) ? 2100 : 5, value));
}

}  // namespace

TEST_CASE("workers that have read the same values store them once", "[lab]") {
  ValuePool pool;
  SharedValues one(pool, two_tables());
  SharedValues two(pool, two_tables());
  fill(one, TableId(0), 1.5F);
  fill(two, TableId(0), 1.5F);
  CHECK(pool.size() == 1);
  CHECK(host_view(one.front(TableId(0))).data() == host_view(two.front(TableId(0))).data());
  fill(two, TableId(1), 1.5F);
  fill(two, TableId(0), 2.5F);
  CHECK(pool.size() == 3);
  CHECK(host_view(one.front(TableId(0)))[2099] == 1.5F);
  CHECK(host_view(two.front(TableId(0)))[2099] == 2.5F);
  fill(one, TableId(0), 2.5F);
  CHECK(pool.size() == 2);
}

TEST_CASE("values that differ in one bit are stored apart", "[lab]") {
  ValuePool pool;
  SharedValues one(pool, two_tables());
  SharedValues two(pool, two_tables());
  for (const std::size_t at : {0UL, 1UL, 7UL, 8UL, 2098UL, 2099UL}) {
    std::vector<float> values(2100, 1.0F);
    values[at] = 0.0F;
    arrive(one, TableId(0), values);
    values[at] = -0.0F;
    arrive(two, TableId(0), values);
    CHECK(pool.size() == 2);
    CHECK(std::signbit(host_view(two.front(TableId(0)))[at]));
    CHECK_FALSE(std::signbit(host_view(one.front(TableId(0)))[at]));
  }
}

TEST_CASE("answers are shared until they are brought, and values go when new ones are requested",
          "[lab]") {
  ValuePool pool;
  SharedValues memory(pool, two_tables());
  std::vector<float> values(2100);
  for (std::size_t i = 0; i < values.size(); ++i) values[i] = static_cast<float>(i);
  const Frame answer = frame_of(values);
  const std::span<float> into = memory.fresh(TableId(0));
  memory.take(into, answer);
  CHECK(answer.owner().use_count() == 2);
  CHECK(pool.size() == 0);
  memory.bring(TableId(0));
  CHECK(answer.owner().use_count() == 1);
  CHECK(std::ranges::equal(host_view(memory.front(TableId(0))), values));
  CHECK(pool.size() == 1);
  (void)memory.fresh(TableId(0));
  CHECK(pool.size() == 0);
  // A read that is requested again has nothing of the one before.
  memory.take(into.first(100), answer.part(0, 400));
  fill(memory, TableId(0), 3.0F);
  CHECK(host_view(memory.front(TableId(0)))[0] == 3.0F);
}

TEST_CASE("large memory that is freed goes back to the system at once", "[lab]") {
  BufferPool pool(Bytes(0), page_allocator());
  constexpr std::size_t kSize = 1UL << 20U;
  Buffer large = pool.acquire(kSize);
  std::ranges::fill(large.floats(), 1.0F);
  void* const memory = large.data();
  CHECK(msync(memory, kSize, MS_ASYNC) == 0);
  large = Buffer();
  CHECK(msync(memory, kSize, MS_ASYNC) == -1);
  const Buffer small = pool.acquire(100);
  std::ranges::fill(small.floats(), 2.0F);
  CHECK(small.floats()[24] == 2.0F);
}

}  // namespace taut::lab
