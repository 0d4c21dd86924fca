#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <utility>
#include <vector>

#include "common/types.hpp"
#include "lab/rows/toy_rows.hpp"

namespace taut::sim {

/// What the checker knows about one worker's rows: which it has pushed and seen, and how shards
/// have answered it.
class RowReads {
 public:
  void note_push(TableId table, Clock clock, std::span<const std::uint64_t> rows);
  /// It has requested these rows of a bucket.
  void note_request(TableId table, SliceId bucket, Clock clock,
                    std::span<const std::uint64_t> rows);
  /// A shard has answered: [rows, width], of the rows that it requested at this clock.
  void note_answer(TableId table, SliceId bucket, Clock clock, std::span<const float> values);

  /// Whether a shard has sent these values of rows of one bucket, [rows, width], in one answer to a
  /// read at this clock.
  [[nodiscard]] bool was_answered(TableId table, SliceId bucket, Clock clock,
                                  std::span<const std::uint64_t> rows,
                                  std::span<const float> values) const;
  /// The number of its updates of a row with clocks below `until`.
  [[nodiscard]] std::int64_t pushes(TableId table, std::uint64_t row, std::int64_t until) const;
  /// The value of column 0 that it saw last; assign to it to record a new one.
  [[nodiscard]] float& seen(TableId table, std::uint64_t row) {
    return seen_[{table.value(), row}];
  }

 private:
  struct Bucket {
    Clock clock;
    std::vector<std::uint64_t> rows;
    std::vector<std::vector<float>> answers;  // to the newest request, and to its copies
  };
  std::map<std::pair<std::uint32_t, std::uint32_t>, Bucket> buckets_;  // of tables
  std::map<std::pair<std::uint32_t, std::uint64_t>, std::vector<std::int64_t>> pushed_;  // clocks
  std::map<std::pair<std::uint32_t, std::uint64_t>, float> seen_;
};

}  // namespace taut::sim
