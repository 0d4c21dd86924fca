#pragma once

#include <cstddef>
#include <cstdint>

namespace taut {

// Of a table that is kept by rows.
inline constexpr std::uint32_t kMaxBuckets = 4096;
inline constexpr std::uint64_t kMaxRowWidth = 1ULL << 16U;
/// That one push or read of a bucket may name, and the values of all its rows together: a push has
/// at most 8 MiB, less than a shard takes as one frame.
inline constexpr std::uint32_t kMaxRowsOfItem = 1U << 19U;
inline constexpr std::uint64_t kMaxRowValues = 1ULL << 20U;

/// A number whose bits all depend on all bits of `row`: neighbours are strewn over buckets and
/// places of a hash table.
/// Source    Steele, Lea and Flood, "Fast Splittable Pseudorandom Number Generators", OOPSLA 2014:
///           the mixing function (variant 13) of SplitMix64
[[nodiscard]] constexpr std::uint64_t mixed(std::uint64_t row) {
  row += 0x9e3779b97f4a7c15ULL;
  row = (row ^ (row >> 30U)) * 0xbf58476d1ce4e5b9ULL;
  row = (row ^ (row >> 27U)) * 0x94d049bb133111ebULL;
  return row ^ (row >> 31U);
}

/// The bucket of a row: a pure function, so that every process works it out alone.
[[nodiscard]] constexpr std::uint32_t bucket_of(std::uint64_t row, std::uint32_t buckets) {
  // Of the upper half: the lower one gives the place within the bucket.
  return static_cast<std::uint32_t>(((mixed(row) >> 32U) * buckets) >> 32U);
}

/// Bytes of a push's payload for each row: its number, then its values.
[[nodiscard]] constexpr std::uint64_t pushed_row_bytes(std::uint64_t width) {
  return sizeof(std::uint64_t) + width * sizeof(float);
}

}  // namespace taut
