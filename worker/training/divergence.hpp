#pragma once

#include <span>
#include <string>

#include "common/result.hpp"
#include "proto/job.pb.h"
#include "worker/progress.hpp"

namespace taut::worker {

/// The value; a NaN without its sign, which has no meaning and would be printed.
[[nodiscard]] double without_sign_of_nan(double value);

/// A job's rule for numbers that are not finite, from its on_divergence and on_bad_update.
class DivergenceRule {
 public:
  DivergenceRule() = default;
  explicit DivergenceRule(const pb::Job& job);
  /// The rule of a process that trains alone: bad updates are applied, whatever on_bad_update is.
  [[nodiscard]] static DivergenceRule without_servers(const pb::Job& job);

  /// Checks a number computed at a clock; `what` names it, e.g. "the loss". If it is not finite,
  /// the board's reports show it; under CONTINUE the first time is logged.
  /// Errors    invalid: it is not finite, and the job must STOP
  [[nodiscard]] Result<void> check(const std::string& what, double value, Clock clock,
                                   ProgressBoard& board) const;
  /// Overload for the values of a parameter.
  [[nodiscard]] Result<void> check(const std::string& parameter, std::span<const float> values,
                                   Clock clock, ProgressBoard& board) const;
  /// Checks the loss of a clock. If servers check updates, the coordinator decides what follows
  /// from one that is not finite, and its loss is only in the metrics.
  [[nodiscard]] Result<void> check_loss(double loss, Clock clock, ProgressBoard& board) const;

 private:
  [[nodiscard]] Result<void> note(const std::string& text, Clock clock, ProgressBoard& board) const;

  std::string advice_ = "a lower base_lr, or clip_gradients";
  bool continues_ = false;
  bool is_refused_ = false;  // servers check updates: one with a loss that is not finite
};

}  // namespace taut::worker
