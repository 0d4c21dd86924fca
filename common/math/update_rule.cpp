#include "common/math/update_rule.hpp"

#include <algorithm>
#include <cmath>

#include "common/math/update_kernels.hpp"

namespace taut::math {

float relative_norm(std::span<const float> gradient, std::span<const float> values) {
  return relative_norm(sum_of_squares(gradient), sum_of_squares(values));
}

float relative_norm(double gradient_squares, double value_squares) {
  const double of_values = std::sqrt(value_squares);
  if (!(of_values > 0)) return 0;
  const auto norm = static_cast<float>(std::sqrt(gradient_squares) / of_values);
  // A gradient without a norm cannot be scaled: it goes as it is, and the loss shows it.
  return std::isfinite(norm) ? norm : 0;
}

float update_scale(const UpdateRule& rule, float norm, float decay_mult) {
  switch (rule.update_norm()) {
    case UpdateNorm::kNone:
      return 1;
    case UpdateNorm::kGradient:
      return norm > rule.clip_norm ? rule.clip_norm / norm : 1.0F;
    case UpdateNorm::kRelative:
      return norm > 0 ? rule.trust_coefficient / (norm + rule.weight_decay * decay_mult) : 1.0F;
  }
  return 1;
}

double decay_share(const UpdateRule& rule, std::span<const float> scales, std::size_t members) {
  double sum = 0;
  for (const float scale : scales) sum += rule.kind == RuleKind::kLars ? double{scale} : 1.0;
  return sum / static_cast<double>(members);
}

namespace {

/// momentum + momentum^2 + ... : what the velocity alone will still do in so many applications.
double velocities_ahead(double momentum, std::size_t applications) {
  double sum = 0;
  for (std::size_t i = 0; i < applications; ++i) sum = momentum * (1 + sum);
  return sum;
}

/// share  of a clock's updates that one application has: the others make 1 / share - 1 more
std::size_t steps_ahead(const UpdateRule& rule, double share) {
  if (!rule.looks_ahead || !(share > 0)) return rule.steps_ahead;
  return rule.steps_ahead + static_cast<std::size_t>(std::max(std::lround(1 / share) - 1, 0L));
}

}  // namespace

UpdateStep make_step(const UpdateRule& rule, std::int64_t clock, float lr_mult, float decay_mult,
                     double share, std::int64_t applications, std::size_t members) {
  UpdateStep step;
  const double scale =
      rule.rate_per_member > 0 ? rule.rate_per_member * static_cast<double>(members) : 1.0;
  step.rate = static_cast<float>(rule.rate.at(clock, scale) * lr_mult);
  step.decay = static_cast<float>(rule.weight_decay * decay_mult * share);
  step.momentum = rule.momentum;
  step.momentum2 = rule.momentum2;
  if (rule.kind == RuleKind::kNesterov) {
    step.ahead = static_cast<float>(velocities_ahead(rule.momentum, steps_ahead(rule, share)));
  }
  step.rms_decay = rule.rms_decay;
  step.delta = rule.delta;
  step.l1 = rule.regularization == Regularization::kL1;
  const auto t = static_cast<double>(applications + 1);
  const double first = 1 - std::pow(rule.momentum, t);
  const double second = 1 - std::pow(rule.momentum2, t);
  if (rule.kind == RuleKind::kAdam) {
    step.correction = static_cast<float>(std::sqrt(second) / first);
  } else if (rule.kind == RuleKind::kAdamW || rule.kind == RuleKind::kLamb) {
    step.correction = static_cast<float>(1 / first);
    step.correction2 = static_cast<float>(1 / std::sqrt(second));
  }
  return step;
}

}  // namespace taut::math
