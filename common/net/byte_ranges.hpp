#pragma once

#include <cstddef>
#include <cstdint>
#include <map>

namespace taut {

/// A set of byte ranges; ranges that touch are merged. Ranges may be forgotten, so that a peer that
/// names many of them cannot make the set grow without bound. Thread: one
class ByteRanges {
 public:
  static constexpr std::size_t kMaxRanges = 4096;

  /// end  one past the last byte
  void add(std::uint64_t begin, std::uint64_t end);
  /// Whether all these bytes were added and not forgotten; true for an empty range.
  [[nodiscard]] bool contains(std::uint64_t begin, std::uint64_t end) const;
  [[nodiscard]] std::size_t count() const { return end_of_.size(); }

 private:
  std::map<std::uint64_t, std::uint64_t> end_of_;  // by the start of a range
};

}  // namespace taut
