#pragma once

#include <algorithm>
#include <cstdint>

#include "common/types.hpp"

namespace taut {

/// The clocks at which a member pushes: every one; or the last of each interval of clocks and the
/// job's very last, where workers train on their own in between.
struct PushSchedule {
  std::int64_t interval = 1;  // at least 1
  Clock end = Clock::never();

  [[nodiscard]] bool pushes_at(Clock clock) const {
    return (clock.value() + 1) % interval == 0 || clock.next() == end;
  }
  /// The first one that is not before `clock`.
  [[nodiscard]] Clock first_from(Clock clock) const {
    const Clock last_of_interval = clock + (interval - 1 - clock.value() % interval);
    return clock < end ? std::min(last_of_interval, end - 1) : last_of_interval;
  }
};

}  // namespace taut
