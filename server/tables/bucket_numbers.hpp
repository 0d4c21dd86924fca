#pragma once

#include <fmt/format.h>

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <string>

#include "common/ssp/row_buckets.hpp"
#include "common/ssp/table.hpp"

namespace taut::server {

/// Why numbers are not those of rows of one bucket; empty if they are.
/// numbers  [rows] 8 bytes each, at any alignment
/// ascend   whether they must ascend, as those of an update must
[[nodiscard]] inline std::string misfit_of_numbers(const TableSpec& table, std::uint32_t bucket,
                                                   std::span<const std::byte> numbers,
                                                   std::size_t rows, bool ascend) {
  const auto all = static_cast<std::uint64_t>(table.shape[0]);
  std::uint64_t lowest = 0;  // the lowest that the next number may be
  for (std::size_t i = 0; i < rows; ++i) {
    std::uint64_t number = 0;
    std::memcpy(&number, numbers.data() + i * sizeof(number), sizeof(number));
    if (number >= all || bucket_of(number, table.rows->buckets) != bucket) {
      return fmt::format("table {} has {} rows, and row {} is not in bucket {}", table.id.value(),
                         all, number, bucket);
    }
    if (!ascend) continue;
    if (number < lowest) {
      return fmt::format("rows {} and {} of table {} do not ascend", lowest - 1, number,
                         table.id.value());
    }
    lowest = number + 1;
  }
  return {};
}

}  // namespace taut::server
