#include "common/ssp/slice_layout.hpp"

#include <algorithm>
#include <map>

#include "tests/support/catch.hpp"

using namespace taut;

namespace {

TableSpec table(std::uint32_t id, std::int64_t count) {
  TableSpec spec;
  spec.id = TableId(id);
  spec.name = "t" + std::to_string(id);
  spec.shape = {count};
  return spec;
}

const std::vector<TableSpec> kTables = {table(0, 500), table(1, 1), table(2, 1'000'000),
                                        table(3, 262'144)};
const std::vector<ShardId> kShards = {ShardId(0), ShardId(1), ShardId(2)};

}  // namespace

TEST_CASE("slices cover every table without gap or overlap", "[layout]") {
  const SliceLayout layout(kTables, kShards);
  REQUIRE(layout.table_count() == 4);
  for (const TableSpec& spec : kTables) {
    std::uint64_t next = 0;
    std::uint32_t number = 0;
    for (const Slice& slice : layout.slices_of(spec.id)) {
      CHECK(slice.offset == next);
      CHECK(slice.slice == SliceId(number++));
      CHECK(slice.count <= SliceLayout::kSliceElements);
      next += slice.count;
    }
    CHECK(next == spec.count());
  }
  CHECK(layout.slices_of(TableId(2)).size() == 4);
  CHECK(layout.slices_of(TableId(3)).size() == 1);
}

TEST_CASE("shards get even loads", "[layout]") {
  const SliceLayout layout(kTables, kShards, 10'000);
  std::map<ShardId, std::uint64_t> load;
  for (const Slice& slice : layout.slices()) load[slice.shard] += slice.count;
  std::uint64_t low = ~0ULL;
  std::uint64_t high = 0;
  for (const auto& [shard, elements] : load) {
    low = std::min(low, elements);
    high = std::max(high, elements);
  }
  CHECK(load.size() == 3);
  CHECK(high - low <= 10'000);
}

TEST_CASE("the same tables and shards give the same layout", "[layout]") {
  const SliceLayout a(kTables, kShards);
  const SliceLayout b(kTables, kShards);
  for (std::size_t i = 0; i < a.slice_count(); ++i) {
    CHECK(a.slices()[i].shard == b.slices()[i].shard);
  }
}

TEST_CASE("a missing slice is not found", "[layout]") {
  const SliceLayout layout(kTables, kShards);
  CHECK(layout.find(TableId(4), SliceId(0)) == nullptr);
  CHECK(layout.find(TableId(2), SliceId(4)) == nullptr);
  CHECK(layout.find(TableId(0xFFFFFFFFU), SliceId(0xFFFFFFFFU)) == nullptr);
  REQUIRE(layout.find(TableId(2), SliceId(3)) != nullptr);
  CHECK(layout.find(TableId(2), SliceId(3))->offset == 3 * SliceLayout::kSliceElements);
}

TEST_CASE("buckets of rows lie evenly on shards, whatever else lies there", "[layout]") {
  // By the elements of one row all buckets would lie where the other table does not.
  std::vector<TableSpec> tables = {table(0, 2'000), table(1, 1)};
  tables[1].shape = {1'000'000, 16};
  tables[1].rows = RowTable{16, 0, 0};
  const std::vector<ShardId> shards = {ShardId(0), ShardId(1)};
  const SliceLayout layout(tables, shards);
  const auto buckets = layout.slices_of(TableId(1));
  REQUIRE(buckets.size() == 16);
  CHECK(std::ranges::count(buckets, ShardId(0), &Slice::shard) == 8);
  CHECK(buckets[5].offset == 5);
  CHECK(buckets[5].count == 16);
}
