#include "tests/unit/layers/gradient_check.hpp"

#include <algorithm>
#include <cmath>

#include "tests/support/catch.hpp"

namespace taut::test {
namespace {

/// sum over the tops of (weight * value), in double.
double objective(LayerBench& bench, const std::vector<Values>& weights) {
  bench.forward();
  double sum = 0;
  for (std::size_t top = 0; top < bench.tops.size(); ++top) {
    for (std::size_t i = 0; i < bench.tops[top].size(); ++i) {
      sum += double{weights[top][i]} * bench.tops[top][i];
    }
  }
  return sum;
}

/// The largest error of `analytic` against central differences of the objective in `values`, in
/// units of what is tolerated: above 1 is wrong, and so is NaN.
double worst_error(LayerBench& bench, Values& values, const Values& analytic,
                   const std::vector<Values>& weights, const Tolerance& tolerance) {
  double worst = 0;
  for (std::size_t i = 0; i < values.size(); ++i) {
    const float kept = values[i];
    const float above = kept + static_cast<float>(tolerance.step);
    const float below = kept - static_cast<float>(tolerance.step);
    values[i] = above;
    const double up = objective(bench, weights);
    values[i] = below;
    const double down = objective(bench, weights);
    values[i] = kept;
    const double numeric = (up - down) / (double{above} - double{below});
    const double error = std::abs(numeric - analytic[i]) /
                         (tolerance.absolute + tolerance.relative * std::abs(numeric));
    if (!(error <= worst)) worst = error;
    if (std::isnan(error)) break;
  }
  return worst;
}

}  // namespace

void check_gradients(LayerBench& bench, const Tolerance& tolerance, bool is_loss) {
  bench.forward();
  bench.backward();
  const auto weights = is_loss ? std::vector<Values>{{1.0F}} : bench.top_gradients;
  for (std::size_t i = 0; i < bench.bottoms.size(); ++i) {
    if (!bench.differentiable[i]) continue;
    const Values analytic = bench.bottom_gradients[i];
    INFO("bottom " << i);
    CHECK(worst_error(bench, bench.bottoms[i], analytic, weights, tolerance) < 1);
  }
  for (std::size_t i = 0; i < bench.parameters.size(); ++i) {
    const Values analytic = bench.parameter_gradients[i];
    INFO("parameter " << i);
    CHECK(worst_error(bench, bench.parameters[i], analytic, weights, tolerance) < 1);
  }
}

void check_gradients(const std::string& definition, const Extents& bottom,
                     const Tolerance& tolerance) {
  INFO(definition);
  LayerBench bench(definition, {bottom});
  check_gradients(bench, tolerance);
}

}  // namespace taut::test
