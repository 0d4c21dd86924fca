#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "common/result.hpp"

namespace taut::data {

/// A blob whose numbers name rows, and what replaces the numbers in batches.
struct RowNumbers {
  std::size_t blob = 0;    // into Batch::blobs
  bool are_bits = false;   // the floats are bits: see RecordSource::has_row_numbers
  bool as_places = true;   // indices among the batch's rows; else the row numbers as floats
  std::uint64_t rows = 0;  // numbers must be less than this
  std::string layer;       // the layer that reads them, for messages
};

/// Replaces a blob's row numbers as `numbers` specifies.
/// rows      out: with as_places the distinct row numbers, ascending; else empty
/// Errors    invalid: a number that names no row; names the layer, position and number
/// Thread    any
[[nodiscard]] Result<void> settle_rows(const RowNumbers& numbers, std::span<float> blob,
                                       std::vector<std::uint64_t>& rows);

}  // namespace taut::data
