#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "common/math/learning_rate.hpp"

namespace taut::math {

enum class RuleKind : std::uint8_t {
  kSgd,
  kMomentum,
  kNesterov,
  kAdam,
  kAdaGrad,
  kRmsProp,
  kAdaDelta,
  kAdamW,
  kLars,
  kLamb,
};
enum class Regularization : std::uint8_t { kL2, kL1 };

/// The norm that travels with an update, where a slice is scaled by what lies outside it.
enum class UpdateNorm : std::uint8_t {
  kNone,
  kGradient,  // of the worker's gradient over all trained tables: it is clipped
  kRelative,  // of the worker's gradient of this table over that of the table's values: LARS
};

/// How a gradient changes a parameter: what a solver says, settled.
struct UpdateRule {
  RuleKind kind = RuleKind::kSgd;
  LearningRate rate;
  float momentum = 0;        // Adam, AdamW, LAMB: beta1; AdaDelta: how slowly both averages forget
  float momentum2 = 0.999F;  // Adam, AdamW, LAMB: beta2
  float delta = 1e-8F;       // epsilon, where a rule divides
  float weight_decay = 0;
  Regularization regularization = Regularization::kL2;
  float clip_norm = -1;     // a worker's gradient is scaled down to this L2 norm; negative: never
  float rms_decay = 0.99F;  // RMSProp: how slowly the average of squares forgets
  float trust_coefficient = 0.001F;  // LARS
  /// Nesterov: the values are kept so many applications ahead along the velocity.
  std::size_t steps_ahead = 1;
  /// Nesterov: where each update is applied on arrival, further ahead by the n - 1 applications of
  /// the others that come between a worker's read and its gradient, whatever their speeds.
  /// Source    Hakimi et al., "Taming Momentum in a Distributed Asynchronous Environment", 2019
  ///           (DANA), here with one velocity for all workers and its decay taken into account
  bool looks_ahead = false;
  /// Where above 0, the base rate is multiplied by it and by the members of a clock: the solver's
  /// rate is meant for a batch of all of them that has another size.
  /// Source    Goyal et al., "Accurate, Large Minibatch SGD", 2017, section 2.1
  double rate_per_member = 0;

  /// How many values beside each parameter the rule keeps; all begin at 0.
  [[nodiscard]] int state_count() const {
    switch (kind) {
      case RuleKind::kSgd:
        return 0;
      case RuleKind::kMomentum:
      case RuleKind::kNesterov:
      case RuleKind::kLars:     // velocity
      case RuleKind::kAdaGrad:  // sum of squares
      case RuleKind::kRmsProp:  // average of squares
        return 1;
      case RuleKind::kAdam:
      case RuleKind::kAdamW:
      case RuleKind::kLamb:      // both moments
      case RuleKind::kAdaDelta:  // averages of squared gradients and of squared updates
        return 2;
    }
    return 0;
  }

  [[nodiscard]] UpdateNorm update_norm() const {
    if (kind == RuleKind::kLars) return UpdateNorm::kRelative;
    return clip_norm > 0 ? UpdateNorm::kGradient : UpdateNorm::kNone;
  }
};

/// The norm that a worker sends with a table's gradient under LARS: |gradient| / |values|, or 0 where
/// either is 0, and the update is then taken as it is.
[[nodiscard]] float relative_norm(std::span<const float> gradient, std::span<const float> values);
/// The same of the sums of their squares.
[[nodiscard]] float relative_norm(double gradient_squares, double value_squares);

/// What a worker's gradient of a table is multiplied by, by the norm that came with it.
/// clipping  L2 norm of the gradient over all tables down to clip_norm
/// LARS      the layer-wise rate trust_coefficient * |w| / (|g| + weight_decay * |w|)
/// Source    Pascanu et al., "On the difficulty of training recurrent neural networks", ICML 2013;
///           You et al., "Large Batch Training of Convolutional Networks", 2017, eq. 6 and algorithm 1
[[nodiscard]] float update_scale(const UpdateRule& rule, float norm, float decay_mult);

/// The part of a clock's weight decay that an application brings, so that decay acts once per clock:
/// how many of the members' updates it has; under LARS each counts by its layer-wise rate.
/// scales   what each update of the application is multiplied by
/// members  that take part at the clock
[[nodiscard]] double decay_share(const UpdateRule& rule, std::span<const float> scales,
                                 std::size_t members);

/// The numbers of one application: the same for every element of a slice.
struct UpdateStep {
  float rate = 0;   // learning rate, with the table's lr_mult
  float decay = 0;  // weight decay, with the table's decay_mult and this application's share
  float momentum = 0;
  float momentum2 = 0;
  float ahead = 0;  // Nesterov: how many velocities the values are ahead
  float rms_decay = 0;
  float delta = 0;
  float correction = 1;   // bias correction: Adam's of both moments in one; else of the first
  float correction2 = 1;  // AdamW and LAMB: of the second moment's root
  bool l1 = false;
};

/// One application of the rule at `clock`.
/// share         decay_share() of it
/// applications  how many applications this slice has had before
/// members       that take part at the clock
///
/// What a rule means when each update is applied on arrival (SSP, ASYNC), n members each sending
/// its own mean, divided by n here:
/// SGD       n steps of 1/n each: the same sum as the aggregate's one step.
/// momentum, Nesterov
///           the velocity decays n times per clock instead of once, and gathers 1/n of the gradient
///           each time; under a constant gradient g the parameters move by rate * g / (1 - momentum)
///           per clock, as with the aggregate.
///           A late gradient excites what heavy-ball momentum swings in already, so that this is less
///           stable than the aggregate; `looks_ahead` mends that.
/// LARS      the same, of each arrival's gradient times its own layer-wise rate. The aggregate too
///           is the mean of gradients that were scaled one by one, since a norm is known only to
///           the worker that has the whole table; a single worker's run is the paper's.
/// AdaGrad   squares gather to n (g/n)^2 per clock instead of g^2: n steps that are sqrt(n) times as
///           long together.
/// Adam, AdamW, LAMB, RMSProp, AdaDelta
///           moments are averages over arrivals of g/n, whose scale cancels in the step: each
///           arrival is one of full length, so a clock moves up to n times as far as the
///           aggregate's; divide base_lr by n to compare runs. Bias correction counts arrivals.
[[nodiscard]] UpdateStep make_step(const UpdateRule& rule, std::int64_t clock, float lr_mult,
                                   float decay_mult, double share, std::int64_t applications,
                                   std::size_t members = 1);

}  // namespace taut::math
