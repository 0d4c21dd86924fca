#pragma once

#include <cstddef>
#include <cstdint>
#include <map>

namespace taut {

/// Ranges of bytes of which something is known; those that touch are one. It may forget what was
/// added, so that a peer that names many does not decide how much memory they take. Thread: one
class ByteRanges {
 public:
  static constexpr std::size_t kMaxRanges = 4096;

  /// end  one past the last byte
  void add(std::uint64_t begin, std::uint64_t end);
  /// Whether all of these bytes were added, and are not forgotten; true of no bytes.
  [[nodiscard]] bool contains(std::uint64_t begin, std::uint64_t end) const;
  [[nodiscard]] std::size_t count() const { return end_of_.size(); }

 private:
  std::map<std::uint64_t, std::uint64_t> end_of_;  // by where a range begins
};

}  // namespace taut
