#include "worker/data/row_numbers.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cmath>

namespace taut::data {
namespace {

/// Floats represent every whole number up to this one.
constexpr std::uint64_t kWholeFloats = 1ULL << 24U;

Error no_row(const RowNumbers& numbers, std::size_t position, double number) {
  return invalid(fmt::format(
      "layer \"{}\": number {} at position {} of the batch is not a whole number in [0, {}); check "
      "the data and embed_param.input_dim",
      numbers.layer, number, position, numbers.rows));
}

Result<std::uint64_t> row_at(const RowNumbers& numbers, std::span<const float> blob,
                             std::size_t position) {
  const float number = blob[position];
  if (numbers.are_bits) {
    const auto row = std::bit_cast<std::uint32_t>(number);
    if (row < numbers.rows) return std::uint64_t{row};
    return no_row(numbers, position, row);
  }
  // A double represents both the number and the limit exactly.
  const double wide = number;
  if (wide >= static_cast<double>(kWholeFloats)) {
    return invalid(fmt::format(
        "layer \"{}\": number {} at position {} of the batch is beyond 2^24, where a float stands "
        "for several numbers; feed such numbers by a SparseData layer",
        numbers.layer, wide, position));
  }
  if (wide >= 0 && wide < static_cast<double>(numbers.rows) && wide == std::floor(wide)) {
    return static_cast<std::uint64_t>(wide);
  }
  return no_row(numbers, position, wide);
}

}  // namespace

Result<void> settle_rows(const RowNumbers& numbers, std::span<float> blob,
                         std::vector<std::uint64_t>& rows) {
  rows.clear();
  if (!numbers.as_places && !numbers.are_bits) return ok();
  // Each number with its position: after sorting, each number's index follows in one pass.
  std::vector<std::uint64_t> sorted(blob.size());
  for (std::size_t i = 0; i < blob.size(); ++i) {
    TAUT_TRY(const std::uint64_t row, row_at(numbers, blob, i));
    if (!numbers.as_places) {
      if (row > kWholeFloats) return no_row(numbers, i, static_cast<double>(row));
      blob[i] = static_cast<float>(row);
      continue;
    }
    sorted[i] = row << 32U | i;
  }
  if (!numbers.as_places) return ok();
  std::ranges::sort(sorted);
  for (const std::uint64_t one : sorted) {
    const std::uint64_t row = one >> 32U;
    if (rows.empty() || rows.back() != row) rows.push_back(row);
    blob[static_cast<std::uint32_t>(one)] = static_cast<float>(rows.size() - 1);
  }
  return ok();
}

}  // namespace taut::data
