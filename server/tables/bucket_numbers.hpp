#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>

#include "common/ssp/row_buckets.hpp"
#include "common/ssp/table.hpp"

namespace taut::server {

/// Whether numbers ascend and are of rows of one bucket.
/// numbers  [rows] 8 bytes each, at any alignment
[[nodiscard]] inline bool are_rows_of(const TableSpec& table, std::uint32_t bucket,
                                      std::span<const std::byte> numbers, std::size_t rows) {
  const auto all = static_cast<std::uint64_t>(table.shape[0]);
  std::uint64_t lowest = 0;  // that the next one may be
  for (std::size_t i = 0; i < rows; ++i) {
    std::uint64_t number = 0;
    std::memcpy(&number, numbers.data() + i * sizeof(number), sizeof(number));
    if (number < lowest || number >= all) return false;
    if (bucket_of(number, table.rows->buckets) != bucket) return false;
    lowest = number + 1;
  }
  return true;
}

}  // namespace taut::server
