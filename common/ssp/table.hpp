#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "common/files/tensor_file.hpp"
#include "common/math/filler.hpp"
#include "common/types.hpp"

namespace taut {

enum class TableKind : std::uint8_t {
  kTrained,   // updated by the update rule
  kAveraged,  // running statistics: the members' values are averaged
  kFrozen,    // never pushed
};

/// How a table of shape [rows, width] is kept by rows.
struct RowTable {
  std::uint32_t buckets = 1;   // parts of the rows, by a hash of their numbers: the table's slices
  std::uint64_t max_rows = 0;  // limit over all buckets; keeps those updated last
  std::int64_t idle_clocks = 0;  // a row that was not updated for this long is dropped; 0: never
  /// Limit on the rows that a member pushes at a clock, or reads for one, in all buckets together;
  /// 0: in each bucket as many as an item may have.
  std::uint64_t clock_rows = 0;
  friend bool operator==(const RowTable&, const RowTable&) = default;
};

/// A table as its creator describes it.
struct TableSpec {
  TableId id;
  std::string name;
  std::vector<std::int64_t> shape;
  TableKind kind = TableKind::kTrained;
  math::Filler filler;
  float lr_mult = 1;
  float decay_mult = 1;
  std::optional<TensorPlace> origin = {};  // what it starts from instead of the filler
  std::optional<RowTable> rows = {};       // it is kept by rows; the shape is then [rows, width]

  /// Elements.
  [[nodiscard]] std::uint64_t count() const {
    std::uint64_t product = 1;
    for (const std::int64_t extent : shape) product *= static_cast<std::uint64_t>(extent);
    return product;
  }
  /// The length of a row. REQUIRES: it is kept by rows.
  [[nodiscard]] std::uint64_t width() const { return static_cast<std::uint64_t>(shape[1]); }
  friend bool operator==(const TableSpec&, const TableSpec&) = default;
};

}  // namespace taut
