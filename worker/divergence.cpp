#include "worker/divergence.hpp"

#include <fmt/format.h>

#include <cmath>

#include "common/math/finite.hpp"

namespace taut::worker {
namespace {

std::string advice_for(const pb::SolverParameter& solver) {
  std::string advice = fmt::format("a base_lr below {:g}", solver.base_lr());
  if (solver.clip_gradients() > 0) {
    return advice + fmt::format(", or clip_gradients below {:g}", solver.clip_gradients());
  }
  return advice + ", or clip_gradients";
}

}  // namespace

DivergenceRule::DivergenceRule(const pb::SolverParameter& solver) : advice_(advice_for(solver)) {}

Result<void> DivergenceRule::check(const std::string& what, double value, Clock clock,
                                   ProgressBoard& board) const {
  if (std::isfinite(value)) return ok();
  // The sign of a NaN means nothing.
  const double shown = std::isnan(value) ? std::abs(value) : value;
  return diverged(fmt::format("{} is {}", what, shown), clock, board);
}

Result<void> DivergenceRule::check(const std::string& parameter, std::span<const float> values,
                                   Clock clock, ProgressBoard& board) const {
  if (math::all_finite(values)) return ok();
  return diverged(fmt::format("parameter \"{}\" has values that are not finite", parameter), clock,
                  board);
}

Error DivergenceRule::diverged(const std::string& text, Clock clock, ProgressBoard& board) const {
  ProgressReport report = board.read();
  report.diverged = true;
  board.post(report);
  return invalid(fmt::format("{} at iteration {}: the training has diverged; try {}", text,
                             clock.value(), advice_));
}

}  // namespace taut::worker
