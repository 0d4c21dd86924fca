#include "worker/client/row_parts.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <utility>

#include "common/check.hpp"
#include "common/ssp/row_buckets.hpp"

namespace taut {
namespace {

/// The indices of rows, grouped by bucket, ascending in each.
struct Parts {
  std::vector<std::uint32_t> first;   // [buckets + 1] in `places`
  std::vector<std::uint32_t> places;  // [rows]

  [[nodiscard]] std::span<const std::uint32_t> of(std::uint32_t bucket) const {
    return std::span(places).subspan(first[bucket], first[bucket + 1] - first[bucket]);
  }
};

Result<Parts> split(const TableSpec& table, std::span<const std::uint64_t> rows) {
  const std::uint32_t buckets = table.rows->buckets;
  const auto all = static_cast<std::uint64_t>(table.shape[0]);
  const std::uint64_t limit = max_rows_of_item(table.width());
  Parts parts;
  parts.first.assign(buckets + 1, 0);
  std::vector<std::uint16_t> bucket(rows.size());
  for (std::size_t i = 0; i < rows.size(); ++i) {
    if (rows[i] >= all) {
      return invalid(
          fmt::format("table \"{}\" has {} rows, and row {} is named", table.name, all, rows[i]));
    }
    bucket[i] = static_cast<std::uint16_t>(bucket_of(rows[i], buckets));
    ++parts.first[bucket[i] + 1];
  }
  const std::uint32_t most = *std::ranges::max_element(parts.first);
  if (most > limit) {
    return invalid(fmt::format(
        "table \"{}\": {} rows of one bucket are named at once, and at most {} may be: name fewer, "
        "or give the table more than {} buckets",
        table.name, most, limit, buckets));
  }
  for (std::uint32_t b = 0; b < buckets; ++b) parts.first[b + 1] += parts.first[b];
  std::vector<std::uint32_t> next(parts.first.begin(), parts.first.end() - 1);
  parts.places.resize(rows.size());
  for (std::size_t i = 0; i < rows.size(); ++i) {
    parts.places[next[bucket[i]]++] = static_cast<std::uint32_t>(i);
  }
  return parts;
}

/// Writes the numbers of some rows; returns the position after them.
std::byte* write_numbers(std::span<const std::uint64_t> rows, std::span<const std::uint32_t> places,
                         std::byte* out) {
  for (const std::uint32_t place : places) {
    std::memcpy(out, &rows[place], sizeof(std::uint64_t));
    out += sizeof(std::uint64_t);
  }
  return out;
}

}  // namespace

Result<std::vector<RowRead>> split_read(const TableSpec& table, std::span<const std::uint64_t> rows,
                                        BufferPool& pool) {
  TAUT_TRY(const Parts parts, split(table, rows));
  std::vector<RowRead> reads;
  for (std::uint32_t bucket = 0; bucket < table.rows->buckets; ++bucket) {
    const auto places = parts.of(bucket);
    if (places.empty()) continue;
    const Buffer numbers = pool.acquire(places.size() * sizeof(std::uint64_t));
    write_numbers(rows, places, numbers.data());
    reads.push_back({SliceId(bucket), Frame(numbers), {places.begin(), places.end()}});
  }
  if (reads.empty()) reads.push_back({SliceId(0), {}, {}});
  return reads;
}

Result<std::vector<Update>> split_push(const TableSpec& table, Clock clock,
                                       std::span<const std::uint64_t> rows,
                                       std::span<const float> gradients, float norm, float weight,
                                       BufferPool& pool) {
  TAUT_CHECK(gradients.size() == rows.size() * table.width(), "each row has a gradient");
  const auto wrong = std::ranges::adjacent_find(rows, std::ranges::greater_equal());
  if (wrong != rows.end()) {
    return invalid(fmt::format("table \"{}\": rows {} and {} of an update do not ascend",
                               table.name, *wrong, *std::next(wrong)));
  }
  TAUT_TRY(const Parts parts, split(table, rows));
  const std::size_t row_bytes = table.width() * sizeof(float);
  std::vector<Update> updates;
  for (std::uint32_t bucket = 0; bucket < table.rows->buckets; ++bucket) {
    const auto places = parts.of(bucket);
    Update update{clock, {}, norm, {}, weight, true, static_cast<std::uint32_t>(places.size())};
    if (!places.empty()) {
      const Buffer payload = pool.acquire(places.size() * pushed_row_bytes(table.width()));
      std::byte* out = write_numbers(rows, places, payload.data());
      for (const std::uint32_t place : places) {
        std::memcpy(out, &gradients[place * table.width()], row_bytes);
        out += row_bytes;
      }
      update.gradient = Frame(payload);
    }
    updates.push_back(std::move(update));
  }
  return updates;
}

}  // namespace taut
