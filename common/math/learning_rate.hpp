#pragma once

#include <array>
#include <cstdint>
#include <string_view>
#include <vector>

namespace taut::math {

/// The learning rate as a function of an update's clock: never of wall time or of arrival order.
/// Source    Caffe's lr_policy (its solver's documentation); cosine: Loshchilov and Hutter, "SGDR",
///           ICLR 2017, eq. 5 without restarts; warm-up: Goyal et al., "Accurate, Large Minibatch
///           SGD", 2017, section 2.2
struct LearningRate {
  enum class Policy : std::uint8_t {
    kFixed,      // base
    kStep,       // base * gamma ^ floor(clock / step)
    kMultistep,  // base * gamma ^ (how many of `steps` are at or below the clock)
    kExp,        // base * gamma ^ clock
    kInv,        // base * (1 + gamma * clock) ^ -power
    kPoly,       // base * (1 - clock / horizon) ^ power
    kSigmoid,    // base / (1 + exp(-gamma * (clock - step)))
    kCosine,     // base / 2 * (1 + cos(pi * clock / horizon))
  };
  Policy policy = Policy::kFixed;
  double base = 0.01;
  double gamma = 0;
  double power = 0;
  std::int64_t step = 1;
  std::vector<std::int64_t> steps;  // ascending
  std::int64_t horizon = 1;         // max_iter
  std::int64_t warmup = 0;  // clocks of linear rise from `warmup_base` to the policy's value
  double warmup_base = 0;

  /// scale   multiplies `base`, but not the rate at which warm-up starts
  [[nodiscard]] double at(std::int64_t clock, double scale = 1) const;

 private:
  [[nodiscard]] double without_warmup(std::int64_t clock) const;
};

/// A policy's name in a solver's lr_policy, and the solver's fields that it reads.
struct LearningRatePolicy {
  std::string_view name;
  LearningRate::Policy policy;
  bool gamma = false;
  bool power = false;
  bool stepsize = false;
  bool stepvalue = false;
};

/// Every policy, in the order in which errors name them.
inline constexpr std::array kLearningRatePolicies{
    LearningRatePolicy{.name = "fixed", .policy = LearningRate::Policy::kFixed},
    LearningRatePolicy{
        .name = "step", .policy = LearningRate::Policy::kStep, .gamma = true, .stepsize = true},
    LearningRatePolicy{.name = "multistep",
                       .policy = LearningRate::Policy::kMultistep,
                       .gamma = true,
                       .stepvalue = true},
    LearningRatePolicy{.name = "exp", .policy = LearningRate::Policy::kExp, .gamma = true},
    LearningRatePolicy{
        .name = "inv", .policy = LearningRate::Policy::kInv, .gamma = true, .power = true},
    LearningRatePolicy{.name = "poly", .policy = LearningRate::Policy::kPoly, .power = true},
    LearningRatePolicy{.name = "sigmoid",
                       .policy = LearningRate::Policy::kSigmoid,
                       .gamma = true,
                       .stepsize = true},
    LearningRatePolicy{.name = "cosine", .policy = LearningRate::Policy::kCosine},
};

}  // namespace taut::math
