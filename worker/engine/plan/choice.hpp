#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "worker/engine/plan/carries.hpp"

namespace taut::plan {

/// The set of kept carries, with the room left and the bytes that the dropped ones move.
class Choice {
 public:
  /// Starts with every carry dropped.
  explicit Choice(const Problem& problem);

  [[nodiscard]] bool kept(std::size_t carry) const { return kept_[carry]; }
  [[nodiscard]] std::uint64_t moved_bytes() const { return moved_bytes_; }
  /// The room left in a step; negative: the kept carries do not fit.
  [[nodiscard]] std::int64_t left(std::size_t step) const { return left_[step]; }
  [[nodiscard]] bool fits(std::size_t carry) const;
  /// Bytes that keeping a carry saves, with all others unchanged.
  [[nodiscard]] std::uint64_t gain(std::size_t carry) const;

  void keep(std::size_t carry);
  void drop(std::size_t carry);

 private:
  void take(std::size_t carry, std::int64_t sign);

  const Problem* problem_;
  std::vector<bool> kept_;
  std::vector<std::size_t> dropped_of_value_;
  std::vector<std::int64_t> left_;
  std::uint64_t moved_bytes_ = 0;
};

/// Choices that fit, best first: Belady's rule around the cycle, a greedy one, and one guided by
/// the prices of the lower bound; if none of them reaches the bound, also these improved by
/// exchanges (in a large problem only the best), and if few carries compete, by exhaustive search.
[[nodiscard]] std::vector<Choice> choose(const Problem& problem);

/// Belady's rule alone: if a step exceeds its room, the kept carry with the furthest next use is
/// dropped, distances weighted by bytes freed per byte moved, so that a clean one is dropped before
/// a dirty one.
[[nodiscard]] Choice choose_by_next_use(const Problem& problem);

}  // namespace taut::plan
