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
  std::vector<std::uint32_t> places;  // [rows] each one's row in the memory that is read into
};

/// Splits the rows of a read by bucket, and omits buckets without rows. If `rows` is empty, returns
/// an empty read of the first bucket, so that it waits for other workers too.
/// pool    provides the memory of the numbers
/// Errors  invalid: a row that the table lacks; more rows in a bucket than one message may name
[[nodiscard]] Result<std::vector<RowRead>> split_read(const TableSpec& table,
                                                      std::span<const std::uint64_t> rows,
                                                      BufferPool& pool);

/// One update for each bucket, even one without rows.
/// gradients  [rows, width]
/// Errors     as split_read(); rows that do not ascend
[[nodiscard]] Result<std::vector<Update>> split_push(const TableSpec& table, Clock clock,
                                                     std::span<const std::uint64_t> rows,
                                                     std::span<const float> gradients, float norm,
                                                     float weight, BufferPool& pool);

}  // namespace taut
