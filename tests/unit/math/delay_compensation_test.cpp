#include "common/math/delay_compensation.hpp"

#include <cmath>
#include <vector>

#include "tests/support/catch.hpp"

using namespace taut::math;

namespace {

GradientView view(const std::vector<float>& gradient, float scale = 1) {
  return {reinterpret_cast<const std::byte*>(gradient.data()), scale};
}

}  // namespace

TEST_CASE("delay compensation adds strength * g * g * (now - before)", "[delay-compensation]") {
  const std::vector<float> gradient = {2, -3, 0.5F, 0};
  const std::vector<float> now = {1, 1, -4, 7};
  const std::vector<float> before = {0.5F, 2, -4, 1};
  std::vector<float> out(4);
  compensate_delay({.strength = 0.1F}, view(gradient), now, before, {}, out);
  for (std::size_t i = 0; i < out.size(); ++i) {
    const double g = gradient[i];
    CHECK(out[i] == Approx(g + 0.1 * g * g * (static_cast<double>(now[i]) - before[i])));
  }
  // No other worker changed the third one meanwhile: its gradient stays as it was.
  CHECK(out[2] == 0.5F);
}

TEST_CASE("a gradient is compensated as it was clipped", "[delay-compensation]") {
  const std::vector<float> gradient = {8};
  std::vector<float> out(1);
  compensate_delay({.strength = 1}, view(gradient, 0.25F), std::vector<float>{3},
                   std::vector<float>{1}, {}, out);
  CHECK(out[0] == Approx(2 + 2 * 2 * (3 - 1)));
}

TEST_CASE("the adaptive form divides its strength by the root of the moving mean square",
          "[delay-compensation]") {
  const DelayCompensation rule{.strength = 2, .decay = 0.95F};
  const std::vector<float> now = {1.5F};
  const std::vector<float> before = {1};
  std::vector<float> mean_square = {0};
  double reference = 0;
  for (const float g : {0.3F, -2.0F, 0.01F}) {
    const std::vector<float> gradient = {g};
    std::vector<float> out(1);
    compensate_delay(rule, view(gradient), now, before, mean_square, out);
    reference = 0.95 * reference + 0.05 * g * g;
    const double strength = 2 / std::sqrt(reference + 1e-7);
    CHECK(mean_square[0] == Approx(reference));
    CHECK(out[0] == Approx(g + strength * g * g * 0.5));
  }
}

TEST_CASE("an update counts one over its staleness, and never more than one", "[staleness-rate]") {
  CHECK(staleness_scale(0) == 1);
  CHECK(staleness_scale(0.75) == 1);
  CHECK(staleness_scale(1) == 1);
  CHECK(staleness_scale(2.5) == Approx(0.4));
  CHECK(staleness_scale(4) == 0.25F);
}
