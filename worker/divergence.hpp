#pragma once

#include <span>
#include <string>

#include "common/result.hpp"
#include "proto/solver.pb.h"
#include "worker/progress.hpp"

namespace taut::worker {

/// Ends a training that has diverged: what it computed is no finite number.
class DivergenceRule {
 public:
  DivergenceRule() = default;
  explicit DivergenceRule(const pb::SolverParameter& solver);

  /// Checks what was computed at a clock, of which `what` names a number, e.g. "the loss".
  /// Errors    invalid: it is not finite; the board's report says so
  [[nodiscard]] Result<void> check(const std::string& what, double value, Clock clock,
                                   ProgressBoard& board) const;
  /// Overload for the values of a parameter.
  [[nodiscard]] Result<void> check(const std::string& parameter, std::span<const float> values,
                                   Clock clock, ProgressBoard& board) const;

 private:
  [[nodiscard]] Error diverged(const std::string& text, Clock clock, ProgressBoard& board) const;

  std::string advice_ = "a lower base_lr, or clip_gradients";
};

}  // namespace taut::worker
