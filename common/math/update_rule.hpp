#pragma once

#include <cmath>
#include <cstdint>

#include "common/math/host_device.hpp"
#include "common/math/learning_rate.hpp"

namespace taut::math {

enum class RuleKind : std::uint8_t { kSgd, kMomentum, kNesterov, kAdam };
enum class Regularization : std::uint8_t { kL2, kL1 };

/// How a gradient changes a parameter: what a solver says, settled.
struct UpdateRule {
  RuleKind kind = RuleKind::kSgd;
  LearningRate rate;
  float momentum = 0;        // Adam: beta1
  float momentum2 = 0.999F;  // Adam: beta2
  float delta = 1e-8F;       // Adam: epsilon
  float weight_decay = 0;
  Regularization regularization = Regularization::kL2;
  float clip_norm = -1;  // a worker's gradient is scaled down to this L2 norm; negative: never

  /// How many values beside each parameter the rule keeps: velocity; both moments.
  [[nodiscard]] int state_count() const {
    switch (kind) {
      case RuleKind::kSgd:
        return 0;
      case RuleKind::kMomentum:
      case RuleKind::kNesterov:
        return 1;
      case RuleKind::kAdam:
        return 2;
    }
    return 0;
  }
};

/// What clipping makes of a worker's gradient whose L2 norm over all tables is `norm`.
/// Source    Pascanu et al., "On the difficulty of training recurrent neural networks", ICML 2013
[[nodiscard]] inline float clip_scale(const UpdateRule& rule, float norm) {
  return rule.clip_norm > 0 && norm > rule.clip_norm ? rule.clip_norm / norm : 1.0F;
}

/// The numbers of one application: the same for every element of a slice.
struct UpdateStep {
  float rate = 0;   // learning rate, with the table's lr_mult
  float decay = 0;  // weight decay, with the table's decay_mult and this application's share
  float momentum = 0;
  float momentum2 = 0;
  float delta = 0;
  float correction = 1;  // Adam's bias correction
  bool l1 = false;
};

/// One application of the rule at `clock`.
/// share         which part of a clock's updates it applies: 1 for an aggregate of all members, 1/n
///               for one arrival of n. Weight decay is scaled by it, and so acts once per clock
/// applications  how many applications this slice has had before
///
/// What a rule means when each update is applied on arrival (SSP, ASYNC), n members each sending
/// its own mean, divided by n here:
/// SGD       n steps of 1/n each: the same sum as the aggregate's one step.
/// momentum, Nesterov
///           the velocity decays n times per clock instead of once, and gathers 1/n of the gradient
///           each time; under a constant gradient g the parameters move by rate * g / (1 - momentum)
///           per clock, as with the aggregate.
/// Adam      moments are averages over arrivals of g/n, whose scale cancels in m / sqrt(v): each
///           arrival is a step of about `rate`, so a clock moves up to n times as far as the
///           aggregate's; divide base_lr by n to compare runs. Bias correction counts arrivals.
[[nodiscard]] inline UpdateStep make_step(const UpdateRule& rule, std::int64_t clock, float lr_mult,
                                          float decay_mult, double share,
                                          std::int64_t applications) {
  UpdateStep step;
  step.rate = static_cast<float>(rule.rate.at(clock) * lr_mult);
  step.decay = static_cast<float>(rule.weight_decay * decay_mult * share);
  step.momentum = rule.momentum;
  step.momentum2 = rule.momentum2;
  step.delta = rule.delta;
  step.l1 = rule.regularization == Regularization::kL1;
  if (rule.kind == RuleKind::kAdam) {
    const auto t = static_cast<double>(applications + 1);
    step.correction = static_cast<float>(std::sqrt(1 - std::pow(rule.momentum2, t)) /
                                         (1 - std::pow(rule.momentum, t)));
  }
  return step;
}

/// The gradient with weight decay: L2 adds decay * w, L1 decay * sign(w).
TAUT_HD inline float decayed(const UpdateStep& step, float value, float gradient) {
  if (step.l1) {
    const float sign = value > 0 ? 1.0F : (value < 0 ? -1.0F : 0.0F);
    return gradient + step.decay * sign;
  }
  return gradient + step.decay * value;
}

/// w - rate * g
TAUT_HD inline float apply_sgd(const UpdateStep& step, float value, float gradient) {
  return value - step.rate * decayed(step, value, gradient);
}

/// v = momentum * v + rate * g; w - v
/// Source    Polyak, 1964; in the form of Caffe's SGD solver
TAUT_HD inline float apply_momentum(const UpdateStep& step, float value, float gradient,
                                    float& velocity) {
  velocity = step.momentum * velocity + step.rate * decayed(step, value, gradient);
  return value - velocity;
}

/// v' = momentum * v + rate * g; w - ((1 + momentum) * v' - momentum * v)
/// Source    Sutskever et al., "On the importance of initialization and momentum in deep learning",
///           ICML 2013; in the form of Caffe's Nesterov solver
TAUT_HD inline float apply_nesterov(const UpdateStep& step, float value, float gradient,
                                    float& velocity) {
  const float before = velocity;
  velocity = step.momentum * before + step.rate * decayed(step, value, gradient);
  return value - ((1 + step.momentum) * velocity - step.momentum * before);
}

/// m = b1 m + (1 - b1) g; v = b2 v + (1 - b2) g^2; w - rate * correction * m / (sqrt(v) + delta)
/// Source    Kingma and Ba, "Adam: A Method for Stochastic Optimization", ICLR 2015, section 2,
///           in the reordered form at its end
TAUT_HD inline float apply_adam(const UpdateStep& step, float value, float gradient, float& first,
                                float& second) {
  const float g = decayed(step, value, gradient);
  first = step.momentum * first + (1 - step.momentum) * g;
  second = step.momentum2 * second + (1 - step.momentum2) * g * g;
  return value - step.rate * step.correction * first / (std::sqrt(second) + step.delta);
}

}  // namespace taut::math
