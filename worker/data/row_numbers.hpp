#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "common/result.hpp"

namespace taut::data {

/// A blob whose numbers name rows, and what its batches are to have instead.
struct RowNumbers {
  std::size_t blob = 0;    // into Batch::blobs
  bool are_bits = false;   // the floats are as RecordSource::has_row_numbers says
  bool as_places = true;   // the rows' places among the batch's; else their numbers as floats
  std::uint64_t rows = 0;  // numbers must be below
  std::string layer;       // that reads them, for messages
};

/// Replaces a blob's row numbers as `numbers` says.
/// rows      the distinct ones, ascending; with as_places, else it is emptied
/// Errors    invalid: a number that is not one of the rows'; names the layer, position and number
/// Thread    any
[[nodiscard]] Result<void> settle_rows(const RowNumbers& numbers, std::span<float> blob,
                                       std::vector<std::uint64_t>& rows);

}  // namespace taut::data
