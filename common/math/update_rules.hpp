#pragma once

#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>
#include <utility>
#include <vector>

#include "common/check.hpp"
#include "common/math/host_device.hpp"
#include "common/math/update_rule.hpp"

// Every update rule: its name, what it keeps and reads, and its arithmetic on one element, which
// CPU loops and CUDA kernels both compile. A new rule is added only here: a name in RuleKind and a
// Rule.
namespace taut::math {

/// The rules, in the order in which errors name them.
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
  kLion,
  kFtrl,
  kRAdam,
  kEnd,
};
inline constexpr std::size_t kRuleCount = static_cast<std::size_t>(RuleKind::kEnd);

/// The fields of a solver that a rule reads, in addition to the rate, weight_decay and
/// clip_gradients.
struct SolverFields {
  bool momentum = false;
  bool momentum2 = false;
  bool rms_decay = false;
  bool trust_coefficient = false;
  bool delta = false;
  bool ftrl = false;  // ftrl_beta, ftrl_l1 and ftrl_l2
};

struct RuleInfo {
  std::string_view name;  // the solver's `type`
  int state_count = 0;    // arrays with one value for each parameter; all start from 0
  SolverFields reads;
  UpdateNorm norm = UpdateNorm::kNone;  // what a worker sends with a gradient, apart from clipping
  bool is_type = true;                  // false: no `type` names it; other fields choose it
  /// Its steps along two gradients add up to its step along their sum, so that a part of a gradient
  /// may arrive later.
  bool is_linear = false;
};

/// What weight decay adds to a gradient: L2 decay * w, L1 decay * sign(w).
TAUT_HD inline float decay_pull(const UpdateStep& step, float value) {
  if (step.l1) {
    const float sign = value > 0 ? 1.0F : (value < 0 ? -1.0F : 0.0F);
    return step.decay * sign;
  }
  return step.decay * value;
}

/// The gradient with weight decay.
TAUT_HD inline float decayed(const UpdateStep& step, float value, float gradient) {
  return gradient + decay_pull(step, value);
}

/// m = b1 m + (1 - b1) g; v = b2 v + (1 - b2) g^2
TAUT_HD inline void gather_moments(const UpdateStep& step, float g, float& first, float& second) {
  first = step.momentum * first + (1 - step.momentum) * g;
  second = step.momentum2 * second + (1 - step.momentum2) * g * g;
}

/// m^ / (sqrt(v^) + delta) + decay: both moments without their bias, and decay next to them. AdamW
/// steps along this direction, and LAMB takes its norm.
TAUT_HD inline float decoupled_direction(const UpdateStep& step, float value, float first,
                                         float second) {
  return first * step.correction / (std::sqrt(second) * step.correction2 + step.delta) +
         decay_pull(step, value);
}

/// A rule is a functor
///   float operator()(step, value, gradient, first, second) const
/// that returns the new value and updates the states that it keeps. `gradient` is the application's
/// whole gradient, summed and divided. A rule may also have
///   static void complete(rule, share, t, step)
/// which sets the fields of the step that it alone reads, in the t-th application (from 1) of a
/// slice, that has `share` of its clock's updates.
/// A rule whose step is scaled by norms over the slice (kIsScaledBySlice) has, in the functor's
/// place, gather(), direction(), ratio() and along(): see LAMB.
///
/// Each documents its meaning if every update is applied on arrival (SSP, ASYNC): n members each
/// send their own mean, which is divided by n here.
template <RuleKind kind>
struct Rule;

/// w - rate * g
/// On arrival: n steps of 1/n each: the same sum as the aggregate's one step.
template <>
struct Rule<RuleKind::kSgd> {
  static constexpr RuleInfo kInfo{.name = "SGD", .reads = {.momentum = true}, .is_linear = true};
  TAUT_HD float operator()(const UpdateStep& step, float value, float gradient, float&,
                           float&) const {
    return value - step.rate * decayed(step, value, gradient);
  }
};

/// v = momentum * v + rate * g; w - v
/// On arrival: the velocity decays n times per clock instead of once, and gathers 1/n of the
/// gradient each time; under a constant gradient g the parameters move by rate * g / (1 - momentum)
/// per clock, as with the aggregate. A late gradient amplifies the oscillation of heavy-ball
/// momentum, so that this is less stable than the aggregate; `looks_ahead` corrects that.
/// Source    Polyak, 1964; in the form of Caffe's SGD solver
template <>
struct Rule<RuleKind::kMomentum> {
  static constexpr RuleInfo kInfo{.name = "momentum",
                                  .state_count = 1,
                                  .reads = {.momentum = true},
                                  .is_type = false,
                                  .is_linear = true};
  TAUT_HD float operator()(const UpdateStep& step, float value, float gradient, float& velocity,
                           float&) const {
    velocity = step.momentum * velocity + step.rate * decayed(step, value, gradient);
    return value - velocity;
  }
};

/// v' = momentum * v + rate * g; w - ((1 + ahead) * v' - ahead * v): w is kept `ahead` velocities
/// ahead of where v alone has brought it; with `ahead` = momentum this is Nesterov's, with 0
/// Polyak's. On arrival: as momentum.
/// Source    Sutskever et al., "On the importance of initialization and momentum in deep learning",
///           ICML 2013; in the form of Caffe's Nesterov solver
template <>
struct Rule<RuleKind::kNesterov> {
  static constexpr RuleInfo kInfo{
      .name = "Nesterov", .state_count = 1, .reads = {.momentum = true}, .is_linear = true};
  static void complete(const UpdateRule& rule, double share, double, UpdateStep& step) {
    step.ahead = static_cast<float>(rule.velocities_ahead(share));
  }
  TAUT_HD float operator()(const UpdateStep& step, float value, float gradient, float& velocity,
                           float&) const {
    const float before = velocity;
    velocity = step.momentum * before + step.rate * decayed(step, value, gradient);
    return value - ((1 + step.ahead) * velocity - step.ahead * before);
  }
};

/// w - rate * correction * m / (sqrt(v) + delta)
/// On arrival: moments are averages over arrivals of g/n, whose scale cancels in the step: each
/// arrival is one of full length, so a clock moves up to n times as far as the aggregate's; divide
/// base_lr by n to compare runs. Bias correction counts arrivals.
/// Source    Kingma and Ba, "Adam: A Method for Stochastic Optimization", ICLR 2015, section 2,
///           in the reordered form at its end
template <>
struct Rule<RuleKind::kAdam> {
  static constexpr RuleInfo kInfo{.name = "Adam",
                                  .state_count = 2,
                                  .reads = {.momentum = true, .momentum2 = true, .delta = true}};
  static void complete(const UpdateRule& rule, double, double t, UpdateStep& step) {
    const double first = 1 - std::pow(rule.momentum, t);
    const double second = 1 - std::pow(rule.momentum2, t);
    step.correction = static_cast<float>(std::sqrt(second) / first);
  }
  TAUT_HD float operator()(const UpdateStep& step, float value, float gradient, float& first,
                           float& second) const {
    gather_moments(step, decayed(step, value, gradient), first, second);
    return value - step.rate * step.correction * first / (std::sqrt(second) + step.delta);
  }
};

/// h = h + g^2; w - rate * g / (sqrt(h) + delta)
/// On arrival: squares gather to n (g/n)^2 per clock instead of g^2: n steps that together are
/// sqrt(n) times as long.
/// Source    Duchi et al., "Adaptive Subgradient Methods for Online Learning and Stochastic
///           Optimization", JMLR 2011, section 1.1 (the diagonal form); as in Caffe's AdaGrad
///           solver
template <>
struct Rule<RuleKind::kAdaGrad> {
  static constexpr RuleInfo kInfo{.name = "AdaGrad", .state_count = 1, .reads = {.delta = true}};
  TAUT_HD float operator()(const UpdateStep& step, float value, float gradient, float& squares,
                           float&) const {
    const float g = decayed(step, value, gradient);
    squares = squares + g * g;
    return value - step.rate * g / (std::sqrt(squares) + step.delta);
  }
};

/// h = rms_decay * h + (1 - rms_decay) * g^2; w - rate * g / (sqrt(h) + delta)
/// On arrival: as Adam.
/// Source    Tieleman and Hinton, "Neural Networks for Machine Learning", lecture 6.5, 2012; as in
///           Caffe's RMSProp solver
template <>
struct Rule<RuleKind::kRmsProp> {
  static constexpr RuleInfo kInfo{
      .name = "RMSProp", .state_count = 1, .reads = {.rms_decay = true, .delta = true}};
  TAUT_HD float operator()(const UpdateStep& step, float value, float gradient, float& squares,
                           float&) const {
    const float g = decayed(step, value, gradient);
    squares = step.rms_decay * squares + (1 - step.rms_decay) * g * g;
    return value - step.rate * g / (std::sqrt(squares) + step.delta);
  }
};

/// h = momentum * h + (1 - momentum) * g^2; d = g * sqrt((u + delta) / (h + delta));
/// u = momentum * u + (1 - momentum) * d^2; w - rate * d
/// On arrival: as Adam.
/// Source    Zeiler, "ADADELTA: An Adaptive Learning Rate Method", 2012, algorithm 1; with the rate
///           of Caffe's AdaDelta solver, whose momentum is the paper's rho
template <>
struct Rule<RuleKind::kAdaDelta> {
  static constexpr RuleInfo kInfo{
      .name = "AdaDelta", .state_count = 2, .reads = {.momentum = true, .delta = true}};
  TAUT_HD float operator()(const UpdateStep& step, float value, float gradient, float& squares,
                           float& updates) const {
    const float g = decayed(step, value, gradient);
    squares = step.momentum * squares + (1 - step.momentum) * g * g;
    const float moved = g * std::sqrt((updates + step.delta) / (squares + step.delta));
    updates = step.momentum * updates + (1 - step.momentum) * moved * moved;
    return value - step.rate * moved;
  }
};

/// The bias of each moment separately, for decoupled_direction().
inline void complete_moments(const UpdateRule& rule, double t, UpdateStep& step) {
  const double first = 1 - std::pow(rule.momentum, t);
  const double second = 1 - std::pow(rule.momentum2, t);
  step.correction = static_cast<float>(1 / first);
  step.correction2 = static_cast<float>(1 / std::sqrt(second));
}

/// w - rate * (m^ / (sqrt(v^) + delta) + decay * w), moments of the gradient without decay
/// On arrival: as Adam.
/// Source    Loshchilov and Hutter, "Decoupled Weight Decay Regularization", ICLR 2019, algorithm 2
template <>
struct Rule<RuleKind::kAdamW> {
  static constexpr RuleInfo kInfo{.name = "AdamW",
                                  .state_count = 2,
                                  .reads = {.momentum = true, .momentum2 = true, .delta = true}};
  static void complete(const UpdateRule& rule, double, double t, UpdateStep& step) {
    complete_moments(rule, t, step);
  }
  TAUT_HD float operator()(const UpdateStep& step, float value, float gradient, float& first,
                           float& second) const {
    gather_moments(step, gradient, first, second);
    return value - step.rate * decoupled_direction(step, value, first, second);
  }
};

/// Momentum on a gradient that update_scale() has scaled for each table.
/// On arrival: as momentum, of each arrival's gradient times its own layer-wise rate. The aggregate
/// too is the mean of gradients that were scaled separately, since a norm is known only to the
/// worker that has the whole table; a single worker's run is the paper's.
/// Source    You et al., "Large Batch Training of Convolutional Networks", 2017, algorithm 1
template <>
struct Rule<RuleKind::kLars> : Rule<RuleKind::kMomentum> {
  static constexpr RuleInfo kInfo{.name = "LARS",
                                  .state_count = 1,
                                  .reads = {.momentum = true, .trust_coefficient = true},
                                  .norm = UpdateNorm::kRelative};
};

/// w - rate * ratio * (m^ / (sqrt(v^) + delta) + decay * w); the ratio is that of the norms, over
/// the slice, of the values and of the direction.
/// On arrival: as Adam.
/// Source    You et al., "Large Batch Optimization for Deep Learning: Training BERT in 76 minutes",
///           ICLR 2020, algorithm 2, with the identity for its phi
template <>
struct Rule<RuleKind::kLamb> {
  static constexpr RuleInfo kInfo{.name = "LAMB",
                                  .state_count = 2,
                                  .reads = {.momentum = true, .momentum2 = true, .delta = true}};
  static constexpr bool kIsScaledBySlice = true;
  static void complete(const UpdateRule& rule, double, double t, UpdateStep& step) {
    complete_moments(rule, t, step);
  }
  /// The first pass: what the gradient does to the states.
  TAUT_HD static void gather(const UpdateStep& step, float gradient, float& first, float& second) {
    gather_moments(step, gradient, first, second);
  }
  /// The direction of the step, from the values and states that gather() left.
  TAUT_HD static float direction(const UpdateStep& step, float value, float first, float second) {
    return decoupled_direction(step, value, first, second);
  }
  /// |w| / |direction| of the slice, or 1 if either has no length (a bias that starts from 0).
  TAUT_HD static float ratio(double squares_of_values, double squares_of_direction) {
    if (!(squares_of_values > 0 && squares_of_direction > 0)) return 1;
    return static_cast<float>(std::sqrt(squares_of_values / squares_of_direction));
  }
  /// The second pass: the new value.
  TAUT_HD static float along(const UpdateStep& step, float ratio, float value, float direction) {
    return value - step.rate * ratio * direction;
  }
};

/// w - rate * (sign(b1 m + (1 - b1) g) + decay * w); m = b2 m + (1 - b2) g, of the gradient without
/// decay
/// On arrival: each arrival is a step of full length, as with Adam.
/// Source    Chen et al., "Symbolic Discovery of Optimization Algorithms", NeurIPS 2023, program 2
template <>
struct Rule<RuleKind::kLion> {
  static constexpr RuleInfo kInfo{
      .name = "Lion", .state_count = 1, .reads = {.momentum = true, .momentum2 = true}};
  TAUT_HD float operator()(const UpdateStep& step, float value, float gradient, float& moment,
                           float&) const {
    const float along = step.momentum * moment + (1 - step.momentum) * gradient;
    const float sign = along > 0 ? 1.0F : (along < 0 ? -1.0F : 0.0F);
    moment = step.momentum2 * moment + (1 - step.momentum2) * gradient;
    return value - step.rate * (sign + decay_pull(step, value));
  }
};

/// n' = n + g^2; z = z + g - (sqrt(n') - sqrt(n)) / rate * w; w is 0 where |z| is at most l1, else
/// -(z - sign(z) l1) / ((beta + sqrt(n')) / rate + l2). Before the first gradient, z is set to what
/// gives the initial value.
/// On arrival: as AdaGrad; z gathers n times g/n, the aggregate's sum.
/// Source    McMahan et al., "Ad Click Prediction: a View from the Trenches", KDD 2013, algorithm 1
template <>
struct Rule<RuleKind::kFtrl> {
  static constexpr RuleInfo kInfo{.name = "FTRL", .state_count = 2, .reads = {.ftrl = true}};
  static void complete(const UpdateRule& rule, double, double, UpdateStep& step) {
    step.momentum = rule.ftrl_l1;
    step.momentum2 = rule.ftrl_l2;
    step.delta = rule.ftrl_beta;
  }
  TAUT_HD static float sign(float number) {
    return number > 0 ? 1.0F : (number < 0 ? -1.0F : 0.0F);
  }
  TAUT_HD float operator()(const UpdateStep& step, float value, float gradient, float& pull,
                           float& squares) const {
    const float beta = step.delta;
    const float l1 = step.momentum;
    const float l2 = step.momentum2;
    if (!(step.rate > 0)) return value;
    if (squares == 0 && pull == 0) {
      pull = -value * (beta / step.rate + l2) - sign(value) * l1;
    }
    const float sum = squares + gradient * gradient;
    if (sum == 0) return value;
    const float root = std::sqrt(sum);
    pull = pull + gradient - (root - std::sqrt(squares)) / step.rate * value;
    squares = sum;
    const float beyond = std::fabs(pull) - l1;
    if (!(beyond > 0)) return 0;
    return -sign(pull) * beyond / ((beta + root) / step.rate + l2);
  }
};

/// w - rate * m^ * r * sqrt(1 - b2^t) / (sqrt(v) + delta) where r exists, which compensates for the
/// variance of v after few gradients; w - rate * m^ before. m^ is m without its bias.
/// On arrival: as Adam.
/// Source    Liu et al., "On the Variance of the Adaptive Learning Rate and Beyond", ICLR 2020,
///           algorithm 2, with the bound of 5 for rho that its authors' code and PyTorch use
template <>
struct Rule<RuleKind::kRAdam> {
  static constexpr RuleInfo kInfo{.name = "RAdam",
                                  .state_count = 2,
                                  .reads = {.momentum = true, .momentum2 = true, .delta = true}};
  static void complete(const UpdateRule& rule, double, double t, UpdateStep& step) {
    const double power = std::pow(rule.momentum2, t);
    const double longest = 2 / (1 - static_cast<double>(rule.momentum2)) - 1;
    const double rho = longest - 2 * t * power / (1 - power);
    step.correction = static_cast<float>(1 / (1 - std::pow(rule.momentum, t)));
    step.correction2 = 0;
    if (!(rho > 5)) return;
    const double rectified =
        (rho - 4) * (rho - 2) * longest / ((longest - 4) * (longest - 2) * rho);
    step.correction2 = static_cast<float>(std::sqrt(rectified * (1 - power)));
  }
  TAUT_HD float operator()(const UpdateStep& step, float value, float gradient, float& first,
                           float& second) const {
    gather_moments(step, decayed(step, value, gradient), first, second);
    const float along = step.rate * step.correction * first;
    if (step.correction2 == 0) return value - along;
    return value - along * step.correction2 / (std::sqrt(second) + step.delta);
  }
};

template <class R>
inline constexpr bool kIsScaledBySlice = requires {
  R::kIsScaledBySlice;
};

namespace detail {
// Packs are expanded over functions: nvcc loses one in Rule<static_cast<RuleKind>(index)>.
template <std::size_t index>
constexpr RuleInfo info_at() {
  return Rule<static_cast<RuleKind>(index)>::kInfo;
}
template <std::size_t... index>
constexpr std::array<RuleInfo, kRuleCount> infos(std::index_sequence<index...>) {
  return {info_at<index>()...};
}
template <std::size_t index, class Work>
bool is_and_works(RuleKind kind, Work& work) {
  if (kind != static_cast<RuleKind>(index)) return false;
  work(Rule<static_cast<RuleKind>(index)>{});
  return true;
}
template <class Work, std::size_t... index>
bool with_rule(RuleKind kind, Work& work, std::index_sequence<index...>) {
  return (is_and_works<index>(kind, work) || ...);
}
}  // namespace detail

inline constexpr std::array<RuleInfo, kRuleCount> kRuleInfos =
    detail::infos(std::make_index_sequence<kRuleCount>{});

[[nodiscard]] constexpr const RuleInfo& info_of(RuleKind kind) {
  return kRuleInfos[static_cast<std::size_t>(kind)];
}

/// Calls work(Rule<kind>{}).
template <class Work>
void with_rule(RuleKind kind, Work work) {
  const bool found = detail::with_rule(kind, work, std::make_index_sequence<kRuleCount>{});
  TAUT_CHECK(found, "an update rule of no kind");
}

/// What a solver's `type` may name.
[[nodiscard]] std::vector<RuleInfo> rule_types();
[[nodiscard]] std::optional<RuleKind> rule_of_type(std::string_view type);

/// Whether its steps need norms of a whole table: LARS of a worker's gradient, LAMB of the step.
[[nodiscard]] bool needs_table_norms(RuleKind kind);

}  // namespace taut::math
