#include "worker/model/table_numbers.hpp"

#include <algorithm>

namespace taut::model {

TableNumbers whole_table(std::size_t table) {
  return [table](const ReadTable& read, std::uint64_t first, std::span<float> out) {
    return read(table, first, out);
  };
}

TableNumbers in_blocks(std::size_t table, std::uint64_t block, std::vector<std::size_t> order) {
  return [table, block, order = std::move(order)](const ReadTable& read, std::uint64_t first,
                                                  std::span<float> out) -> Result<void> {
    while (!out.empty()) {
      const std::uint64_t within = first % block;
      const auto count =
          static_cast<std::size_t>(std::min<std::uint64_t>(block - within, out.size()));
      const std::uint64_t from = order[static_cast<std::size_t>(first / block)] * block + within;
      TAUT_TRY(read(table, from, out.first(count)));
      out = out.subspan(count);
      first += count;
    }
    return ok();
  };
}

TableNumbers transposed(std::size_t table, std::uint64_t rows, std::uint64_t columns) {
  return [=](const ReadTable& read, std::uint64_t first, std::span<float> out) -> Result<void> {
    // A range of the transposed table covers a few of its columns: one part of each table row.
    const std::uint64_t begin = first / rows;
    const std::uint64_t end = (first + out.size() + rows - 1) / rows;
    std::vector<float> part(static_cast<std::size_t>(end - begin));
    for (std::uint64_t row = 0; row < rows; ++row) {
      TAUT_TRY(read(table, row * columns + begin, part));
      for (std::uint64_t column = begin; column < end; ++column) {
        const std::uint64_t place = column * rows + row;
        if (place < first || place >= first + out.size()) continue;
        out[static_cast<std::size_t>(place - first)] =
            part[static_cast<std::size_t>(column - begin)];
      }
    }
    return ok();
  };
}

TableNumbers zeros() {
  return [](const ReadTable&, std::uint64_t, std::span<float> out) -> Result<void> {
    std::ranges::fill(out, 0.0F);
    return ok();
  };
}

TableNumbers divided(std::size_t sums, std::size_t weight) {
  return [=](const ReadTable& read, std::uint64_t first, std::span<float> out) -> Result<void> {
    float divisor = 0;
    TAUT_TRY(read(weight, 0, std::span(&divisor, 1)));
    TAUT_TRY(read(sums, first, out));
    for (float& value : out) value = divisor == 0 ? 0 : value / divisor;
    return ok();
  };
}

TableNumbers joined(std::vector<std::pair<std::uint64_t, TableNumbers>> parts) {
  return [parts = std::move(parts)](const ReadTable& read, std::uint64_t first,
                                    std::span<float> out) -> Result<void> {
    for (const auto& [count, numbers] : parts) {
      if (out.empty()) break;
      if (first >= count) {
        first -= count;
        continue;
      }
      const auto taken =
          static_cast<std::size_t>(std::min<std::uint64_t>(count - first, out.size()));
      TAUT_TRY(numbers(read, first, out.first(taken)));
      out = out.subspan(taken);
      first = 0;
    }
    return ok();
  };
}

}  // namespace taut::model
