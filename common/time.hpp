#pragma once

#include <algorithm>
#include <chrono>
#include <cmath>

namespace taut {

using Duration = std::chrono::microseconds;

/// Monotonic time since an arbitrary origin that differs between processes.
class TimePoint {
 public:
  constexpr TimePoint() = default;
  explicit constexpr TimePoint(Duration since_origin) : since_origin_(since_origin) {}

  [[nodiscard]] constexpr Duration since_origin() const { return since_origin_; }
  friend constexpr auto operator<=>(TimePoint, TimePoint) = default;
  friend constexpr Duration operator-(TimePoint a, TimePoint b) {
    return a.since_origin_ - b.since_origin_;
  }
  friend constexpr TimePoint operator+(TimePoint t, Duration d) {
    return TimePoint(t.since_origin_ + d);
  }
  static constexpr TimePoint never() { return TimePoint(Duration::max()); }

 private:
  Duration since_origin_{0};
};

/// The steady clock of this machine. State machines never call it: the time is an argument.
[[nodiscard]] inline TimePoint steady_now() {
  return TimePoint(
      std::chrono::duration_cast<Duration>(std::chrono::steady_clock::now().time_since_epoch()));
}

/// Seconds as a number, for rates and reports.
[[nodiscard]] constexpr double seconds(Duration d) {
  return std::chrono::duration<double>(d).count();
}

/// Durations from doubles are limited to about 3,000 years, so that sums of them do not overflow.
inline constexpr double kMaxDurationSeconds = 1e11;

[[nodiscard]] constexpr Duration from_seconds(double value) {
  return std::chrono::duration_cast<Duration>(
      std::chrono::duration<double>(std::clamp(value, -kMaxDurationSeconds, kMaxDurationSeconds)));
}

/// Rounded up.
[[nodiscard]] inline Duration from_microseconds(double value) {
  constexpr double kMax = 1e6 * kMaxDurationSeconds;
  return Duration(static_cast<Duration::rep>(std::ceil(std::clamp(value, -kMax, kMax))));
}

}  // namespace taut
