#include "lab/training/shared_values.hpp"

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

void fill(ValueMemory& memory, TableId table, float value) {
  std::ranges::fill(memory.fresh(table), value);
  memory.bring(table);
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
    std::ranges::fill(one.fresh(TableId(0)), 1.0F);
    std::ranges::fill(two.fresh(TableId(0)), 1.0F);
    two.fresh(TableId(0))[at] = -0.0F;
    one.fresh(TableId(0))[at] = 0.0F;
    one.bring(TableId(0));
    two.bring(TableId(0));
    CHECK(pool.size() == 2);
    CHECK(std::signbit(host_view(two.front(TableId(0)))[at]));
    CHECK_FALSE(std::signbit(host_view(one.front(TableId(0)))[at]));
  }
}

}  // namespace taut::lab
