#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "common/result.hpp"
#include "proto/net.pb.h"
#include "worker/data/sparse/feature_hash.hpp"
#include "worker/data/sparse/read_records.hpp"
#include "worker/data/tables/csv_reader.hpp"

namespace taut::data {

/// A line of a table as a record; its memory is reused.
struct TableRecord {
  float label = 0;
  std::vector<SparseFeature> features;
};

/// How a table's columns become features: categories, numbers and the label.
class TableColumns {
 public:
  /// head      the table's first line, the columns' names
  /// Errors    invalid: a column that the layer names and the table lacks; the table is empty
  [[nodiscard]] static Result<TableColumns> of(const pb::SparseDataParameter& layer,
                                               const std::vector<CsvField>& head,
                                               const std::string& name);

  /// Errors    invalid, at line and column: a wrong number of fields, text where a number must be
  [[nodiscard]] Result<void> read(const std::vector<CsvField>& fields, TableRecord& into) const;

 private:
  struct Column {
    std::size_t place = 0;  // in a line
    bool is_category = false;
    ColumnHash hash;
    std::uint32_t number = 0;  // the feature of a column of numbers
  };

  TableColumns() = default;

  std::string name_;
  std::uint64_t features_ = 1;
  std::vector<std::string> titles_;
  std::vector<Column> columns_;
  std::size_t label_ = 0;
};

}  // namespace taut::data
