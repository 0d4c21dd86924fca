#pragma once

#include <cmath>
#include <cstdint>
#include <span>

#include "common/math/host_device.hpp"
#include "common/math/update_kernels.hpp"

namespace taut::math {

/// How strongly a late gradient is corrected for how the parameters changed meanwhile.
struct DelayCompensation {
  float strength = 0.04F;  // lambda
  float decay = 0;         // of the moving mean square; 0: constant strength

  [[nodiscard]] bool is_adaptive() const { return decay > 0; }
};

/// Added under the root of the adaptive form.
inline constexpr float kMeanSquareFloor = 1e-7F;

/// g + strength * g * g * (now - before): a first-order step from the gradient at the parameters
/// that its worker read (`before`) to that at those it is applied to (`now`); g * g stands for the
/// Hessian's diagonal.
/// Source    Zheng et al., "Asynchronous Stochastic Gradient Descent with Delay Compensation", ICML
///           2017, algorithm 2
TAUT_HD inline float compensate(float gradient, float now, float before, float strength) {
  return gradient + strength * gradient * gradient * (now - before);
}

/// decay * mean_square + (1 - decay) * g * g
TAUT_HD inline float next_mean_square(float mean_square, float gradient, float decay) {
  return decay * mean_square + (1.0F - decay) * gradient * gradient;
}

/// strength / sqrt(mean_square + 1e-7): the strength of the adaptive form, for each element.
/// Source    the same, DC-ASGD-a of its experiments
TAUT_HD inline float adaptive_strength(float strength, float mean_square) {
  return strength / std::sqrt(mean_square + kMeanSquareFloor);
}

/// Corrects one worker's gradient of a slice, after its clipping.
/// now, before   [n] the slice's values, and what they were when the worker read them
/// mean_square   [n] of the gradients so far, of all workers; updated in place; empty where the
///               strength is constant
/// out           [n]
/// Thread        any; no shared state
void compensate_delay(const DelayCompensation& rule, const GradientView& gradient,
                      std::span<const float> now, std::span<const float> before,
                      std::span<float> mean_square, std::span<float> out);

/// The weight of an update that arrives when its worker's values are `staleness` behind:
/// 1 / staleness, and at most 1.
///
/// In the paper a gradient's staleness is how often the shared parameters were updated between its
/// worker's pull and its arrival, where one update gathers one gradient of each learner or of
/// fewer. Here: the applications of the slice since the worker's read was answered, divided by the
/// number of members where the updates are, so that a clock of all members counts as one, as a mean
/// of all of them does in the paper.
/// Source    Zhang, Gupta, Lian and Liu, "Staleness-aware Async-SGD for Distributed Deep Learning",
///           IJCAI 2016
[[nodiscard]] inline float staleness_scale(double staleness) {
  return staleness > 1 ? static_cast<float>(1 / staleness) : 1.0F;
}

}  // namespace taut::math
