#pragma once

#include <utility>
#include <vector>

#include "common/net/buffer_pool.hpp"
#include "common/ssp/slice_layout.hpp"
#include "common/types.hpp"
#include "proto/update.hpp"
#include "worker/client/update_encoding.hpp"

namespace taut {

/// Turns a member's updates into what is sent of them, once each: what is kept for backups and what
/// is sent again are the same bytes. Where the job's encoding leaves values out, it keeps them for
/// the table's next update: a residual of 4 bytes a value.
/// Thread    one at a time
class UpdateEncoder {
 public:
  explicit UpdateEncoder(UpdateEncoding encoding) : encoding_(std::move(encoding)) {}

  /// Names the job's tables, and how they are cut; before anything is encoded. Residuals are zeros.
  void open(const std::vector<TableSpec>& tables, const SliceLayout& layout);

  /// One update for each slice of a table.
  /// gradient  [count] float32; shared by the result where it is sent as it is
  /// pool      where the result's memory is from otherwise
  /// Throws std::bad_alloc.
  [[nodiscard]] std::vector<Update> encode(TableId table, Clock clock, const Buffer& gradient,
                                           float norm, BufferPool& pool);

 private:
  const UpdateEncoding encoding_;
  SliceLayout layout_;
  std::vector<math::Encoding> tables_;
  std::vector<std::vector<float>> residuals_;  // by table; empty where its encoding has none
};

}  // namespace taut
