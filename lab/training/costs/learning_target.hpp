#pragma once

#include <cstdint>
#include <functional>
#include <optional>

#include "common/result.hpp"
#include "lab/training/costs/scaling.hpp"
#include "lab/training/records/playback.hpp"

namespace taut::lab {

/// What a test must show: either of the two.
struct LearningTarget {
  std::optional<double> accuracy;  // at least
  std::optional<double> loss;      // at most

  [[nodiscard]] bool is_reached(const Playback::Test& test) const;
};

/// How a training in the lab reaches a target.
struct TargetRun {
  std::uint32_t workers = 0;
  Slack slack;
  std::optional<Playback::Test> reached{};  // its first test that shows the target
  std::optional<Playback::Test> best{};     // by the target's figure; ties go to the first
  bool has_failed = false;                  // it diverged, or lost its processes
  double price_per_hour = 0;                // of the hosts that it runs on
};

/// Trains with real gradients in virtual time until a test shows the target, or to the end of the
/// job, in which case the target is not reached. Times of tests are since the cluster's start. The
/// same options give the same run.
/// proceed   called now and then; false ends it
/// Errors    as run_training(); closed: by proceed(); invalid: a job without tests
[[nodiscard]] Result<TargetRun> train_to_target(const ScalingOptions& options,
                                                std::uint32_t workers, Slack slack,
                                                const LearningTarget& target,
                                                const std::function<bool()>& proceed);

}  // namespace taut::lab
