#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "common/ssp/table.hpp"
#include "common/types.hpp"

namespace taut {

/// A part of a table, the unit of clocks, reads and updates: a contiguous one, or one of the
/// buckets of a table that is kept by rows.
struct Slice {
  TableId table;
  SliceId slice;
  std::uint64_t offset = 0;  // of its first element within the table; a bucket's number
  std::uint64_t count = 0;   // elements; of a bucket, those of a row
  ShardId shard;
};

/// How tables are cut and which shard has each slice: a pure function of (tables, live shards), so
/// that every process computes it on its own. A worker that joins or leaves moves nothing.
class SliceLayout {
 public:
  /// Elements of a full slice: about 1 MiB of float32, where message throughput peaks.
  static constexpr std::uint64_t kSliceElements = 1ULL << 18;

  SliceLayout() = default;
  /// REQUIRES: tables are numbered 0, 1, ... in order; at least one shard.
  SliceLayout(std::span<const TableSpec> tables, std::span<const ShardId> shards,
              std::uint64_t slice_elements = kSliceElements);

  [[nodiscard]] std::size_t table_count() const { return first_of_table_.size() - 1; }
  [[nodiscard]] std::size_t slice_count() const { return slices_.size(); }
  /// All slices, by table and offset.
  [[nodiscard]] std::span<const Slice> slices() const { return slices_; }
  /// A table's slices, by offset. REQUIRES: the table exists.
  [[nodiscard]] std::span<const Slice> slices_of(TableId table) const;
  /// A slice; nullptr if there is none.
  [[nodiscard]] const Slice* find(TableId table, SliceId slice) const;
  /// A number for each slice, from 0 and without gaps. REQUIRES: the slice exists.
  [[nodiscard]] std::size_t index_of(TableId table, SliceId slice) const {
    return first_of_table_[table.value()] + slice.value();
  }

 private:
  std::vector<Slice> slices_;
  std::vector<std::size_t> first_of_table_ = {0};
};

}  // namespace taut
