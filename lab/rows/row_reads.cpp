#include "lab/rows/row_reads.hpp"

#include <algorithm>
#include <cstring>

namespace taut::sim {

void RowReads::note_push(TableId table, Clock clock, std::span<const std::uint64_t> rows) {
  for (const std::uint64_t row : rows) pushed_[{table.value(), row}].push_back(clock.value());
}

void RowReads::note_request(TableId table, SliceId bucket, Clock clock,
                            std::span<const std::uint64_t> rows) {
  Bucket& of = buckets_[{table.value(), bucket.value()}];
  if (of.clock > clock) return;  // a late copy
  if (of.clock < clock) of.answers.clear();
  of.clock = clock;
  of.rows.assign(rows.begin(), rows.end());
}

void RowReads::note_answer(TableId table, SliceId bucket, Clock clock,
                           std::span<const float> values) {
  const auto of = buckets_.find({table.value(), bucket.value()});
  if (of == buckets_.end() || of->second.clock != clock) return;
  of->second.answers.emplace_back(values.begin(), values.end());
}

bool RowReads::was_answered(TableId table, SliceId bucket, Clock clock,
                            std::span<const std::uint64_t> rows,
                            std::span<const float> values) const {
  const auto found = buckets_.find({table.value(), bucket.value()});
  if (found == buckets_.end() || found->second.clock != clock) return false;
  const Bucket& of = found->second;
  const std::size_t width = values.size() / rows.size();
  const auto holds = [&](const std::vector<float>& answer) {
    if (answer.size() != of.rows.size() * width) return false;
    for (std::size_t i = 0; i < rows.size(); ++i) {
      const auto at = std::ranges::find(of.rows, rows[i]);
      if (at == of.rows.end()) return false;
      const auto row = static_cast<std::size_t>(at - of.rows.begin());
      if (std::memcmp(answer.data() + row * width, values.data() + i * width,
                      width * sizeof(float)) != 0) {
        return false;
      }
    }
    return true;
  };
  return std::ranges::any_of(of.answers, holds);
}

std::int64_t RowReads::pushes(TableId table, std::uint64_t row, std::int64_t until) const {
  const auto found = pushed_.find({table.value(), row});
  if (found == pushed_.end()) return 0;
  return std::ranges::count_if(found->second, [&](std::int64_t clock) { return clock < until; });
}

}  // namespace taut::sim
