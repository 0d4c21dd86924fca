#include "server/tables/row_list.hpp"

#include <algorithm>
#include <tuple>

namespace taut::server {

std::vector<ListedRow> rows_by_update(const RowImage& image, std::size_t width) {
  std::vector<ListedRow> rows;
  rows.reserve(image.rows);
  const std::size_t floats = (1 + image.states) * width;
  for (const auto& chunk : image.chunks) {
    for (std::size_t i = 0; i < chunk->numbers.size(); ++i) {
      if (chunk->updated[i] == RowChunk::kFree) continue;
      rows.push_back({chunk->updated[i], chunk->numbers[i], chunk->floats.data() + i * floats});
    }
  }
  std::ranges::sort(rows, {},
                    [](const ListedRow& row) { return std::tie(row.updated, row.number); });
  return rows;
}

}  // namespace taut::server
