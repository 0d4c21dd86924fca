#include "common/math/learning_rate.hpp"

#include <algorithm>
#include <cmath>

namespace taut::math {

double LearningRate::without_warmup(std::int64_t clock) const {
  const auto c = static_cast<double>(clock);
  const auto end = static_cast<double>(horizon);
  switch (policy) {
    case Policy::kFixed:
      return base;
    case Policy::kStep:
      return base * std::pow(gamma, std::floor(c / static_cast<double>(step)));
    case Policy::kMultistep: {
      const auto passed = std::upper_bound(steps.begin(), steps.end(), clock) - steps.begin();
      return base * std::pow(gamma, static_cast<double>(passed));
    }
    case Policy::kExp:
      return base * std::pow(gamma, c);
    case Policy::kInv:
      return base * std::pow(1 + gamma * c, -power);
    case Policy::kPoly:
      return base * std::pow(std::max(0.0, 1 - c / end), power);
    case Policy::kSigmoid:
      return base / (1 + std::exp(-gamma * (c - static_cast<double>(step))));
    case Policy::kCosine:
      return base / 2 * (1 + std::cos(3.141592653589793 * std::min(1.0, c / end)));
  }
  return base;
}

double LearningRate::at(std::int64_t clock, double scale) const {
  const double value = scale * without_warmup(clock);
  if (clock >= warmup) return value;
  const double part = static_cast<double>(clock) / static_cast<double>(warmup);
  return warmup_base + (value - warmup_base) * part;
}

}  // namespace taut::math
