#include "common/math/update_rule.hpp"

#include <algorithm>
#include <cmath>
#include <iterator>

#include "common/math/update_kernels.hpp"
#include "common/math/update_rules.hpp"

namespace taut::math {

static_assert(RuleKind{} == RuleKind::kSgd, "what an UpdateRule is by default");

int UpdateRule::state_count() const {
  return info_of(kind).state_count;
}

UpdateNorm UpdateRule::update_norm() const {
  const UpdateNorm own = info_of(kind).norm;
  return own == UpdateNorm::kNone && clip_norm > 0 ? UpdateNorm::kGradient : own;
}

bool UpdateRule::is_scaled_by_slice() const {
  bool scaled = false;
  with_rule(kind, [&](auto rule) { scaled = kIsScaledBySlice<decltype(rule)>; });
  return scaled;
}

double UpdateRule::velocities_ahead(double share) const {
  std::size_t applications = steps_ahead;
  // The other updates of the clock make 1 / share - 1 more applications.
  if (looks_ahead && share > 0) {
    applications += static_cast<std::size_t>(std::max(std::lround(1 / share) - 1, 0L));
  }
  double sum = 0;
  for (std::size_t i = 0; i < applications; ++i) sum = double{momentum} * (1 + sum);
  return sum;
}

std::vector<RuleInfo> rule_types() {
  std::vector<RuleInfo> types;
  std::ranges::copy_if(kRuleInfos, std::back_inserter(types), &RuleInfo::is_type);
  return types;
}

std::optional<RuleKind> rule_of_type(std::string_view type) {
  for (std::size_t i = 0; i < kRuleCount; ++i) {
    if (kRuleInfos[i].is_type && kRuleInfos[i].name == type) return static_cast<RuleKind>(i);
  }
  return std::nullopt;
}

bool needs_table_norms(RuleKind kind) {
  UpdateRule rule;
  rule.kind = kind;
  return rule.is_scaled_by_slice() || info_of(kind).norm != UpdateNorm::kNone;
}

float gradient_norm(double squares) {
  const auto norm = static_cast<float>(std::sqrt(squares));
  return std::isnan(norm) ? 0 : norm;
}

float relative_norm(std::span<const float> gradient, std::span<const float> values) {
  return relative_norm(sum_of_squares(gradient), sum_of_squares(values));
}

float relative_norm(double gradient_squares, double value_squares) {
  const double of_values = std::sqrt(value_squares);
  if (!(of_values > 0)) return 0;
  const auto norm = static_cast<float>(std::sqrt(gradient_squares) / of_values);
  // A gradient without a finite norm cannot be scaled: it is sent as it is, and the loss shows it.
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
  return decay_share(rule, scales, static_cast<double>(scales.size()),
                     static_cast<double>(members));
}

double decay_share(const UpdateRule& rule, std::span<const float> scales, double weight,
                   double members) {
  if (rule.update_norm() != UpdateNorm::kRelative) return weight / members;
  double sum = 0;
  for (const float scale : scales) sum += double{scale};
  return sum / members;
}

UpdateStep make_step(const UpdateRule& rule, std::int64_t clock, float lr_mult, float decay_mult,
                     double share, std::int64_t applications, std::size_t members) {
  UpdateStep step;
  const double scale =
      rule.rate_per_member > 0 ? rule.rate_per_member * static_cast<double>(members) : 1.0;
  step.rate = static_cast<float>(rule.rate.at(clock, scale) * lr_mult);
  step.decay = static_cast<float>(rule.weight_decay * decay_mult * share);
  step.momentum = rule.momentum;
  step.momentum2 = rule.momentum2;
  step.rms_decay = rule.rms_decay;
  step.delta = rule.delta;
  step.l1 = rule.regularization == Regularization::kL1;
  with_rule(rule.kind, [&](auto kind) {
    if constexpr (requires { kind.complete(rule, share, 1.0, step); }) {
      kind.complete(rule, share, static_cast<double>(applications + 1), step);
    }
  });
  return step;
}

}  // namespace taut::math
