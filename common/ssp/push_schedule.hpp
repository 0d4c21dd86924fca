#pragma once

#include <algorithm>
#include <cstdint>

#include "common/types.hpp"

namespace taut {

/// The clocks at which a member pushes: every clock; or, where workers train on their own in
/// between, the last of each interval of clocks and the job's very last. Tables may be divided into
/// fragments whose intervals are offset against each other.
struct PushSchedule {
  std::int64_t interval = 1;  // at least 1
  Clock end = Clock::never();
  std::int64_t offset = 0;      // length of the first interval in clocks; 0: a whole one
  std::uint32_t fragments = 1;  // 1 to `interval`
  bool is_seeded = false;       // clock 0 pushes the initial values of all tables

  /// The schedule of one fragment's tables, if this is the job's.
  /// Source    Douillard et al., "Streaming DiLoCo with overlapping communication", 2025, sec. 2.2
  [[nodiscard]] PushSchedule of_fragment(std::uint32_t fragment) const {
    return {interval, end, fragment * interval / fragments, 1, is_seeded};
  }

  [[nodiscard]] bool pushes_at(Clock clock) const { return first_from(clock) == clock; }
  /// The first clock with a push that is not before `clock`.
  [[nodiscard]] Clock first_from(Clock clock) const {
    if (is_seeded && clock <= Clock(0)) return Clock(0);
    const std::int64_t past = (clock.value() + 1 - offset) % interval;
    const Clock last_of_interval = clock + (past <= 0 ? -past : interval - past);
    return clock < end ? std::min(last_of_interval, end - 1) : last_of_interval;
  }
};

}  // namespace taut
