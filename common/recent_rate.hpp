#pragma once

#include <cstdint>
#include <deque>
#include <utility>

#include "common/time.hpp"

namespace taut {

/// How fast a total grew over the last seconds: falls to 0 when the total stops changing.
/// Thread    one
class RecentRate {
 public:
  static constexpr Duration kSpan{3'000'000};

  /// Records the total at `now`. Returns its growth per second over kSpan, or since the first call
  /// if that is shorter.
  double take(TimePoint now, std::uint64_t total) {
    const bool is_due = samples_.empty() || now - samples_.back().first >= kSpacing;
    if (is_due) samples_.emplace_back(now, total);
    // The newest sample that is at least kSpan old starts the span.
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
