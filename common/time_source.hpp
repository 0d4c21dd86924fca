#pragma once

#include <chrono>
#include <thread>

#include "common/time.hpp"

namespace taut {

/// The clock that a component uses: the machine's by default.
/// The lab's is virtual.
/// Thread    any
class TimeSource {
 public:
  TimeSource() = default;
  TimeSource(const TimeSource&) = delete;
  TimeSource& operator=(const TimeSource&) = delete;
  virtual ~TimeSource() = default;

  [[nodiscard]] virtual TimePoint now() const { return steady_now(); }
  /// Seconds since 1970, for records.
  [[nodiscard]] virtual double unix_s() const {
    return std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch())
        .count();
  }
  virtual void sleep(Duration duration) { std::this_thread::sleep_for(duration); }
};

/// The machine's clock.
[[nodiscard]] inline TimeSource& machine_time() {
  static TimeSource time;
  return time;
}

}  // namespace taut
