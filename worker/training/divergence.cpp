#include "worker/training/divergence.hpp"

#include <fmt/format.h>

#include <cmath>

#include "common/log.hpp"
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

double without_sign_of_nan(double value) {
  return std::isnan(value) ? std::abs(value) : value;
}

DivergenceRule::DivergenceRule(const pb::Job& job)
    : advice_(advice_for(job.solver_param())),
      continues_(job.on_divergence() == pb::Job::CONTINUE),
      is_refused_(job.on_bad_update() != pb::Job::ACCEPT) {}

DivergenceRule DivergenceRule::without_servers(const pb::Job& job) {
  DivergenceRule rule(job);
  rule.is_refused_ = false;
  return rule;
}

Result<void> DivergenceRule::check(const std::string& what, double value, Clock clock,
                                   ProgressBoard& board) const {
  if (std::isfinite(value)) return ok();
  return note(fmt::format("{} is {}", what, without_sign_of_nan(value)), clock, board);
}

Result<void> DivergenceRule::check(const std::string& parameter, std::span<const float> values,
                                   Clock clock, ProgressBoard& board) const {
  if (math::all_finite(values)) return ok();
  return note(fmt::format("parameter \"{}\" has values that are not finite", parameter), clock,
              board);
}

Result<void> DivergenceRule::check_loss(double loss, Clock clock, ProgressBoard& board) const {
  return is_refused_ ? ok() : check("the loss", loss, clock, board);
}

Result<void> DivergenceRule::note(const std::string& text, Clock clock,
                                  ProgressBoard& board) const {
  const bool is_first = board.note_divergence();
  const std::string message = fmt::format("{} at iteration {}: the training has diverged; try {}",
                                          text, clock.value(), advice_);
  if (!continues_) return invalid(message);
  if (is_first) log::warn("{}; it continues, as on_divergence says", message);
  return ok();
}

}  // namespace taut::worker
