#pragma once

#include <cstdint>
#include <optional>

#include "common/math/delay_compensation.hpp"
#include "common/ssp/push_schedule.hpp"
#include "common/types.hpp"

namespace taut {

/// The bounds of a slack that moves.
struct SlackRange {
  Slack least;
  Slack most;
};

/// How workers that train on parameters of their own meet at the shared ones.
enum class Exchange : std::uint8_t {
  kNone,      // they train on the shared ones
  kPeriodic,  // all move to the mean of all
  kElastic,   // each and the shared ones move towards each other
};

/// What a job does about staleness beside its bound, settled from its file.
struct Policies {
  std::uint32_t backup_workers = 0;
  bool staleness_rate = false;  // an update counts one over its staleness
  std::optional<math::DelayCompensation> compensation;
  std::optional<SlackRange> dynamic_slack;
  Exchange exchange = Exchange::kNone;
  float moving_rate = 0;  // kElastic; 0: 0.9 over the number of workers
  PushSchedule schedule;

  /// Whether a shard must remember what each worker read.
  [[nodiscard]] bool keeps_reads() const { return staleness_rate || compensation.has_value(); }
};

}  // namespace taut
