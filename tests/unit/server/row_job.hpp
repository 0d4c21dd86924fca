#pragma once

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <random>
#include <span>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "common/ssp/row_buckets.hpp"
#include "proto/data_message.hpp"
#include "server/tables/row_store.hpp"
#include "tests/unit/server/job_maker.hpp"

namespace taut::test {

inline constexpr std::uint64_t kRows = 3000;
inline constexpr std::uint64_t kWidth = 3;
inline constexpr std::uint32_t kBuckets = 6;

/// A table by rows, of which rows are dropped for both reasons.
inline TableSpec row_table(std::uint32_t id, RowTable rows = {kBuckets, 240, 7}) {
  TableSpec table =
      make_table(id, {static_cast<std::int64_t>(kRows), static_cast<std::int64_t>(kWidth)});
  table.rows = rows;
  return table;
}

/// The rows that a worker updates at a clock, ascending: some of them often, others rarely.
inline std::vector<std::uint64_t> rows_updated(std::uint32_t worker, std::int64_t clock) {
  std::mt19937_64 random(static_cast<std::uint64_t>(1000 * clock) + worker);
  std::vector<std::uint64_t> rows;
  for (int i = 0; i < 30; ++i) rows.push_back(random() % (i < 15 ? 40 : kRows));
  std::ranges::sort(rows);
  const auto twice = std::ranges::unique(rows);
  rows.erase(twice.begin(), twice.end());
  return rows;
}

/// Numbers and gradients as a push of a bucket has them.
inline Frame row_payload(const std::vector<std::uint64_t>& rows,
                         const std::vector<float>& gradients) {
  const auto numbers = std::as_bytes(std::span(rows));
  const auto floats = std::as_bytes(std::span(gradients));
  std::vector<std::byte> bytes(numbers.begin(), numbers.end());
  bytes.insert(bytes.end(), floats.begin(), floats.end());
  return Frame::copy_of(bytes);
}

/// A worker's push of one bucket at a clock.
inline DataItem row_push(const TableSpec& table, std::uint32_t bucket, std::uint32_t worker,
                         std::int64_t clock) {
  std::vector<std::uint64_t> rows;
  for (const std::uint64_t row : rows_updated(worker, clock)) {
    if (bucket_of(row, table.rows->buckets) == bucket) rows.push_back(row);
  }
  DataItem item;
  item.kind = pb::DataItem::PUSH;
  item.table = table.id;
  item.slice = SliceId(bucket);
  item.offset = bucket;
  item.count = table.width();
  item.clock = Clock(clock);
  item.by_rows = true;
  item.rows = static_cast<std::uint32_t>(rows.size());
  item.payload =
      row_payload(rows, gradient_of(worker, clock, rows.size() * table.width(), 70 + bucket));
  return item;
}

/// A request for all rows of a bucket.
inline DataItem row_request(const TableSpec& table, std::uint32_t bucket, pb::DataItem::Kind kind,
                            std::int64_t clock = 0) {
  std::vector<std::uint64_t> rows;
  for (std::uint64_t row = 0; row < static_cast<std::uint64_t>(table.shape[0]); ++row) {
    if (bucket_of(row, table.rows->buckets) == bucket) rows.push_back(row);
  }
  DataItem item;
  item.kind = kind;
  item.table = table.id;
  item.slice = SliceId(bucket);
  item.offset = bucket;
  item.count = table.width();
  item.clock = Clock(clock);
  item.by_rows = true;
  item.rows = static_cast<std::uint32_t>(rows.size());
  item.payload = row_payload(rows, {});
  return item;
}

/// A row with all that is kept of it: clock, number and the bits of its floats.
using RowContent = std::tuple<std::int64_t, std::uint64_t, std::vector<std::uint32_t>>;

inline RowContent content_of(const server::ListedRow& row, std::size_t floats) {
  std::vector<std::uint32_t> bits(floats);
  std::memcpy(bits.data(), row.floats, floats * sizeof(float));
  return {row.updated, row.number, std::move(bits)};
}

/// An image's rows by the clocks of their updates, then number.
inline std::vector<RowContent> content_of(const server::RowImage& image, std::size_t width) {
  std::vector<RowContent> rows;
  const std::size_t floats = (1 + image.states) * width;
  for (const auto& chunk : image.chunks) {
    for (std::size_t i = 0; i < chunk->numbers.size(); ++i) {
      if (chunk->updated[i] == server::RowChunk::kFree) continue;
      rows.push_back(content_of(
          {chunk->updated[i], chunk->numbers[i], chunk->floats.data() + i * floats}, floats));
    }
  }
  std::ranges::sort(rows);
  CHECK(rows.size() == image.rows);
  return rows;
}

}  // namespace taut::test
