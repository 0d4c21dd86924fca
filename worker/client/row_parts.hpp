#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "common/net/buffer_pool.hpp"
#include "common/net/message.hpp"
#include "common/result.hpp"
#include "common/ssp/table.hpp"
#include "common/types.hpp"
#include "proto/pushed_update.hpp"

namespace taut {

/// The rows of a read that are in one bucket.
struct RowRead {
  SliceId bucket;
  Frame numbers;                      // [rows] 8 bytes each
  std::vector<std::uint32_t> places;  // [rows] of each in the memory that is read into, in rows
};

/// The rows of each bucket that has some; where there are none at all, none of the first bucket, so
/// that such a read waits for others too.
/// pool    of the numbers' memory
/// Errors  invalid: a row that the table lacks; more rows in a bucket than one message may name
[[nodiscard]] Result<std::vector<RowRead>> split_read(const TableSpec& table,
                                                      std::span<const std::uint64_t> rows,
                                                      BufferPool& pool);

/// An update of each bucket, of no rows too.
/// gradients  [rows, width]
/// Errors     as split_read(); rows that do not ascend
[[nodiscard]] Result<std::vector<Update>> split_push(const TableSpec& table, Clock clock,
                                                     std::span<const std::uint64_t> rows,
                                                     std::span<const float> gradients, float norm,
                                                     float weight, BufferPool& pool);

}  // namespace taut
