#pragma once

#include <span>
#include <string>

#include "common/result.hpp"
#include "proto/job.pb.h"
#include "worker/progress.hpp"

namespace taut::worker {

/// The value, of a NaN without its sign, which means nothing and would be shown.
[[nodiscard]] double without_sign_of_nan(double value);

/// What a job's on_divergence and on_bad_update say of numbers that are not finite.
class DivergenceRule {
 public:
  DivergenceRule() = default;
  explicit DivergenceRule(const pb::Job& job);
  /// The rule of a process that trains alone: its bad updates are applied, whatever the job says.
  [[nodiscard]] static DivergenceRule without_servers(const pb::Job& job);

  /// Checks what was computed at a clock, of which `what` names a number, e.g. "the loss".
  /// If it is not finite, the board's reports say so; under CONTINUE the first time is logged.
  /// Errors    invalid: it is not finite, and the job must STOP
  [[nodiscard]] Result<void> check(const std::string& what, double value, Clock clock,
                                   ProgressBoard& board) const;
  /// Overload for the values of a parameter.
  [[nodiscard]] Result<void> check(const std::string& parameter, std::span<const float> values,
                                   Clock clock, ProgressBoard& board) const;
  /// Checks the loss of a clock. Where servers look at updates, it is for the coordinator to say
  /// what follows from one that is not finite: only the metrics show its loss then.
  [[nodiscard]] Result<void> check_loss(double loss, Clock clock, ProgressBoard& board) const;

 private:
  [[nodiscard]] Result<void> note(const std::string& text, Clock clock, ProgressBoard& board) const;

  std::string advice_ = "a lower base_lr, or clip_gradients";
  bool continues_ = false;
  bool is_refused_ = false;  // an update whose loss is not finite
};

}  // namespace taut::worker
