#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>

namespace taut {

// Limits of a table that is kept by rows.
inline constexpr std::uint32_t kMaxBuckets = 4096;
inline constexpr std::uint64_t kMaxRowWidth = 1ULL << 16U;
/// The most rows that one push or read of a bucket may name, and the most values of all its rows
/// together: a push has at most 8 MiB, less than a shard accepts as one frame.
inline constexpr std::uint32_t kMaxRowsOfItem = 1U << 19U;
inline constexpr std::uint64_t kMaxRowValues = 1ULL << 20U;

/// How many rows one push or read of a bucket may name.
/// REQUIRES: width is at least 1.
[[nodiscard]] constexpr std::uint64_t max_rows_of_item(std::uint64_t width) {
  return std::min<std::uint64_t>(kMaxRowsOfItem, kMaxRowValues / width);
}

/// The number of buckets for which a batch of `rows` rows fits into one item each. The hash
/// spreads rows unevenly: a bucket's number of them is about Poisson distributed, and six standard
/// deviations above its mean m are allowed for, so that m + 6 sqrt(m) is at most an item's limit.
/// REQUIRES: width is in [1, kMaxRowWidth].
[[nodiscard]] inline std::uint64_t min_buckets(std::uint64_t rows, std::uint64_t width) {
  const std::uint64_t limit = max_rows_of_item(width);
  if (rows <= limit) return 1;
  const double root = std::sqrt(9 + static_cast<double>(limit)) - 3;  // of the largest such mean
  return static_cast<std::uint64_t>(std::ceil(static_cast<double>(rows) / (root * root)));
}

/// A number whose bits all depend on all bits of `row`: neighbours spread over buckets and
/// places of a hash table.
/// Source    Steele, Lea and Flood, "Fast Splittable Pseudorandom Number Generators", OOPSLA 2014:
///           the mixing function (variant 13) of SplitMix64
[[nodiscard]] constexpr std::uint64_t mixed(std::uint64_t row) {
  row += 0x9e3779b97f4a7c15ULL;
  row = (row ^ (row >> 30U)) * 0xbf58476d1ce4e5b9ULL;
  row = (row ^ (row >> 27U)) * 0x94d049bb133111ebULL;
  return row ^ (row >> 31U);
}

/// The bucket of a row: a pure function, so that every process computes it on its own.
[[nodiscard]] constexpr std::uint32_t bucket_of(std::uint64_t row, std::uint32_t buckets) {
  // From the upper half: the lower one gives the place within the bucket.
  return static_cast<std::uint32_t>(((mixed(row) >> 32U) * buckets) >> 32U);
}

/// Bytes of a push's payload for each row: its number, then its values.
[[nodiscard]] constexpr std::uint64_t pushed_row_bytes(std::uint64_t width) {
  return sizeof(std::uint64_t) + width * sizeof(float);
}

}  // namespace taut
