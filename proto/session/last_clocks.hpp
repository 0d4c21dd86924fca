#pragma once

#include <cstdint>
#include <mutex>

#include "common/types.hpp"
#include "proto/control.pb.h"

namespace taut {

/// Which clocks a member has begun, and up to which one it trains when its job is saved to end,
/// according to its newest state. A later clock is begun only under a later state, so that a report
/// of the state shows that nothing after the clock in it is trained.
/// Thread    any
class LastClocks {
 public:
  /// Adopts a state; one of an older revision changes nothing.
  void take(const pb::WorkerJob& job);

  /// Whether a clock may be trained; then it has begun.
  [[nodiscard]] bool begin(Clock clock);

  /// Adds to a report which clocks have begun. REQUIRES: the report's revision was read before.
  void report(pb::Progress& progress) const;

 private:
  mutable std::mutex mutex_;
  std::uint64_t revision_ = 0;
  Clock held_ = Clock::never();
  Clock begun_;  // all clocks before it
};

}  // namespace taut
