#include "common/math/delay_compensation.hpp"

#include <algorithm>
#include <array>

#include "common/check.hpp"

namespace taut::math {

void compensate_delay(const DelayCompensation& rule, const GradientView& gradient,
                      std::span<const float> now, std::span<const float> before,
                      std::span<float> mean_square, std::span<float> out) {
  TAUT_CHECK(now.size() == out.size() && before.size() == out.size(), "one slice");
  TAUT_CHECK(!rule.is_adaptive() || mean_square.size() == out.size(), "a mean square an element");
  std::array<float, kGradientBlock> block;
  for (std::size_t i = 0; i < out.size(); ++i) {
    const std::size_t place = i % block.size();
    if (place == 0) {
      read_gradient(gradient, i, std::span(block).first(std::min(block.size(), out.size() - i)));
    }
    const float g = block[place] * gradient.scale;
    float strength = rule.strength;
    if (rule.is_adaptive()) {
      mean_square[i] = next_mean_square(mean_square[i], g, rule.decay);
      strength = adaptive_strength(strength, mean_square[i]);
    }
    out[i] = compensate(g, now[i], before[i], strength);
  }
}

}  // namespace taut::math
