#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "common/math/learning_rate.hpp"

namespace taut::math {

enum class RuleKind : std::uint8_t;  // listed in update_rules.hpp; the first is SGD
enum class Regularization : std::uint8_t { kL2, kL1 };

/// The norm that travels with an update, where a slice is scaled by values outside of it.
enum class UpdateNorm : std::uint8_t {
  kNone,
  kGradient,  // of the worker's gradient over all trained tables: it is clipped
  kRelative,  // of the worker's gradient of this table over that of the table's values: LARS
};

/// How a gradient changes a parameter: the resolved fields of a solver.
struct UpdateRule {
  RuleKind kind{};
  LearningRate rate;
  float momentum = 0;        // Adam, AdamW, LAMB: beta1; AdaDelta: how slowly both averages forget
  float momentum2 = 0.999F;  // Adam, AdamW, LAMB: beta2
  float delta = 1e-8F;       // epsilon, where a rule divides
  float weight_decay = 0;
  Regularization regularization = Regularization::kL2;
  float clip_norm = -1;     // a worker's gradient is scaled down to this L2 norm; negative: never
  float rms_decay = 0.99F;  // RMSProp: how slowly the average of squares forgets
  float trust_coefficient = 0.001F;  // LARS
  float ftrl_beta = 1;
  float ftrl_l1 = 0;
  float ftrl_l2 = 0;
  /// Nesterov: the values are kept this many applications ahead along the velocity.
  std::size_t steps_ahead = 1;
  /// Nesterov: where each update is applied on arrival, further ahead by the n - 1 applications of
  /// the others that occur between a worker's read and its gradient, whatever their speeds.
  /// Source    Hakimi et al., "Taming Momentum in a Distributed Asynchronous Environment", 2019
  ///           (DANA), here with one velocity for all workers and its decay taken into account
  bool looks_ahead = false;
  /// If above 0, the base rate is multiplied by it and by the number of members of a clock: the
  /// solver's rate is meant for another size of the batch of all members.
  /// Source    Goyal et al., "Accurate, Large Minibatch SGD", 2017, section 2.1
  double rate_per_member = 0;

  /// How many values the rule keeps for each parameter; all start from 0.
  [[nodiscard]] int state_count() const;
  [[nodiscard]] UpdateNorm update_norm() const;
  /// Whether its step is scaled by norms over the slice: a table must then not be cut differently.
  [[nodiscard]] bool is_scaled_by_slice() const;
  /// Nesterov: momentum + momentum^2 + ..., one for each step ahead of an application that has
  /// `share` of its clock's updates.
  [[nodiscard]] double velocities_ahead(double share) const;
};

/// The norm of a worker's whole gradient, by which it is clipped. 0 for a norm that is NaN: the
/// gradient cannot be clipped and is sent unchanged, and the loss shows it.
/// squares  the sum over all trained tables, in their order
[[nodiscard]] float gradient_norm(double squares);

/// The norm that a worker sends with a table's gradient under LARS: |gradient| / |values|, or 0
/// if either is 0 or the ratio is not finite; the update is then not scaled.
[[nodiscard]] float relative_norm(std::span<const float> gradient, std::span<const float> values);
/// Overload for the sums of their squares.
[[nodiscard]] float relative_norm(double gradient_squares, double value_squares);

/// The factor of a worker's gradient of a table, from the norm that was sent with it.
/// clipping  L2 norm of the gradient over all tables down to clip_norm
/// LARS      the layer-wise rate trust_coefficient * |w| / (|g| + weight_decay * |w|)
/// Source    Pascanu et al., "On the difficulty of training recurrent neural networks", ICML 2013;
///           You et al., "Large Batch Training of Convolutional Networks", 2017, eq. 6 and
///           algorithm 1
[[nodiscard]] float update_scale(const UpdateRule& rule, float norm, float decay_mult);

/// The share of a clock's weight decay that an application applies, so that decay acts once per
/// clock: its share of the members' updates; under LARS each counts by its layer-wise rate.
/// scales   the factor of each update of the application
/// members  the number of members that take part at the clock
[[nodiscard]] double decay_share(const UpdateRule& rule, std::span<const float> scales,
                                 std::size_t members);
/// Overload for updates that do not all count the same.
/// weight   the total weight of the application's updates
/// members  the total weight of the clock's updates
[[nodiscard]] double decay_share(const UpdateRule& rule, std::span<const float> scales,
                                 double weight, double members);

/// The numbers of one application: the same for every element of a slice. FTRL's are in fields that
/// it does not use otherwise: with three more fields, a kernel's parameters would have room for
/// 292 listed updates, not for kMaxListed (cuda/kernels/update.hpp).
struct UpdateStep {
  float rate = 0;       // learning rate, with the table's lr_mult
  float decay = 0;      // weight decay, with the table's decay_mult and this application's share
  float momentum = 0;   // FTRL: ftrl_l1
  float momentum2 = 0;  // FTRL: ftrl_l2
  float ahead = 0;      // Nesterov: how many velocities the values are ahead
  float rms_decay = 0;
  float delta = 0;        // FTRL: ftrl_beta
  float correction = 1;   // bias correction: Adam's of both moments in one; else of the first
  float correction2 = 1;  // AdamW, LAMB and RAdam: of the second moment's root
  bool l1 = false;
};

/// One application of the rule at `clock`.
/// share         decay_share() of it
/// applications  how many applications this slice has had before
/// members       the number of members that take part at the clock
/// The meaning of each rule if updates are applied on arrival is documented in update_rules.hpp.
[[nodiscard]] UpdateStep make_step(const UpdateRule& rule, std::int64_t clock, float lr_mult,
                                   float decay_mult, double share, std::int64_t applications,
                                   std::size_t members = 1);

}  // namespace taut::math
