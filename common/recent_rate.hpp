#pragma once

#include <cstdint>
#include <deque>
#include <utility>

#include "common/time.hpp"

namespace taut {

/// How fast a total grows, over the last seconds: it falls to 0 when the total does not change.
/// Thread    one
class RecentRate {
 public:
  static constexpr Duration kSpan{3'000'000};

  /// Takes the total at a time. Returns its growth in a second over kSpan, or since the first call
  /// where that is shorter.
  double take(TimePoint now, std::uint64_t total) {
    const bool is_due = samples_.empty() || now - samples_.back().first >= kSpacing;
    if (is_due) samples_.emplace_back(now, total);
    // The newest sample that is at least kSpan old is where the span begins.
    while (samples_.size() > 1 && now - samples_[1].first >= kSpan) samples_.pop_front();
    const auto& [since, then] = samples_.front();
    const double length = seconds(now - since);
    return length > 0 && total > then ? static_cast<double>(total - then) / length : 0;
  }

 private:
  static constexpr Duration kSpacing{100'000};
  std::deque<std::pair<TimePoint, std::uint64_t>> samples_;
};

}  // namespace taut
