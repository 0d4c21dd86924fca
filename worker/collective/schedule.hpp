#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "common/strong_type.hpp"

namespace taut::collective {

/// A member of a group that sums its values without a server; numbered from 0.
using Rank = Id<struct RankTag, std::uint32_t>;

/// Elements [begin, end) of the values that are summed.
struct Range {
  std::uint64_t begin = 0;
  std::uint64_t end = 0;

  [[nodiscard]] std::uint64_t size() const { return end - begin; }
  [[nodiscard]] bool empty() const { return begin == end; }
  [[nodiscard]] bool overlaps(Range other) const { return begin < other.end && other.begin < end; }
  friend bool operator==(Range, Range) = default;
};

/// Part `index` of `parts` consecutive ones, whose sizes differ by at most one, larger ones first.
[[nodiscard]] inline Range part_of(Range whole, std::uint64_t parts, std::uint64_t index) {
  const std::uint64_t size = whole.size() / parts;
  const std::uint64_t larger = whole.size() % parts;
  const std::uint64_t begin = whole.begin + index * size + std::min(index, larger);
  return {begin, begin + size + (index < larger ? 1 : 0)};
}

/// What a message's elements are: sums over some ranks, which the receiver adds to its own, or sums
/// over all ranks, which replace them.
enum class Phase : std::uint8_t { kPartial, kFinal };

/// One rank sends elements to another, or receives them from it.
struct Transfer {
  bool is_send = false;
  Phase phase = Phase::kPartial;
  Rank peer;
  Range range;
  std::uint64_t shift = 0;  // elements by which what is received is placed after its range

  /// Elements of this rank's values.
  [[nodiscard]] Range place() const { return {range.begin + shift, range.end + shift}; }
};

/// One rank's transfers, for each element in this order. Transfers of different elements do not
/// wait for each other.
///
/// Once a rank has sent an element as kPartial, only the final sum replaces it, which depends on
/// it: the receiver has read it before it changes, so values may be lent instead of copied. Between
/// two ranks an element is sent at most once in each phase and direction.
using Schedule = std::vector<Transfer>;

/// A rank and the group that it is in.
struct RankPlace {
  Rank rank;
  std::vector<std::uint32_t> host_of;  // [ranks], of each rank: equal numbers are the same machine

  [[nodiscard]] std::uint32_t ranks() const { return static_cast<std::uint32_t>(host_of.size()); }
};

/// What an algorithm costs one rank, by its formula.
struct Cost {
  std::uint64_t steps = 0;     // the longest chain of messages that depend on each other
  std::uint64_t messages = 0;  // that the rank sends
  std::uint64_t bytes = 0;     // of values that it sends

  friend bool operator==(const Cost&, const Cost&) = default;
};

/// Maximum elements of one message, for a given maximum of bytes.
[[nodiscard]] inline std::uint64_t chunk_elements(std::uint64_t bytes) {
  return std::max<std::uint64_t>(1, bytes / sizeof(float));
}

/// Messages that `elements` elements take.
[[nodiscard]] inline std::uint64_t chunks_of(std::uint64_t elements, std::uint64_t chunk) {
  return elements / chunk + (elements % chunk == 0 ? 0 : 1);
}

}  // namespace taut::collective
