#include "common/ssp/slice_layout.hpp"

#include <algorithm>
#include <numeric>

#include "common/check.hpp"

namespace taut {
namespace {

/// The values that a bucket may have: its equal part of the maximum number of rows.
std::uint64_t bucket_weight(const TableSpec& table) {
  const auto all = static_cast<std::uint64_t>(table.shape[0]);
  const std::uint64_t most = table.rows->max_rows == 0 ? all : std::min(all, table.rows->max_rows);
  return std::max<std::uint64_t>(1, most / table.rows->buckets) * table.width();
}

}  // namespace

SliceLayout::SliceLayout(std::span<const TableSpec> tables, std::span<const ShardId> shards,
                         std::uint64_t slice_elements) {
  TAUT_CHECK(!shards.empty() && slice_elements > 0, "a layout needs a shard");
  std::vector<std::uint64_t> weights;  // of the slices: values that each has, or may have
  for (std::size_t t = 0; t < tables.size(); ++t) {
    TAUT_CHECK(tables[t].id.value() == t, "tables are numbered in order");
    std::uint32_t number = 0;
    if (tables[t].rows) {
      for (; number < tables[t].rows->buckets; ++number) {
        slices_.push_back({tables[t].id, SliceId(number), number, tables[t].width(), ShardId()});
        weights.push_back(bucket_weight(tables[t]));
      }
      first_of_table_.push_back(slices_.size());
      continue;
    }
    const std::uint64_t total = tables[t].count();
    for (std::uint64_t offset = 0; offset < total; offset += slice_elements) {
      weights.push_back(std::min(slice_elements, total - offset));
      slices_.push_back({tables[t].id, SliceId(number++), offset, weights.back(), ShardId()});
    }
    first_of_table_.push_back(slices_.size());
  }

  // The largest first, each to the shard with the least so far: even to within one slice.
  std::vector<std::size_t> order(slices_.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::stable_sort(order.begin(), order.end(),
                   [&](std::size_t a, std::size_t b) { return weights[a] > weights[b]; });
  std::vector<std::uint64_t> load(shards.size(), 0);
  for (const std::size_t index : order) {
    const auto least = std::min_element(load.begin(), load.end()) - load.begin();
    const auto chosen = static_cast<std::size_t>(least);
    slices_[index].shard = shards[chosen];
    load[chosen] += weights[index];
  }
}

std::span<const Slice> SliceLayout::slices_of(TableId table) const {
  const std::size_t t = table.value();
  TAUT_CHECK(t < table_count(), "no such table");
  return std::span(slices_).subspan(first_of_table_[t],
                                    first_of_table_[t + 1] - first_of_table_[t]);
}

const Slice* SliceLayout::find(TableId table, SliceId slice) const {
  if (table.value() >= table_count()) return nullptr;
  const auto slices = slices_of(table);
  return slice.value() < slices.size() ? &slices[slice.value()] : nullptr;
}

}  // namespace taut
