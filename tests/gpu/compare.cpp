#include "tests/gpu/compare.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <random>

#include "common/math/philox.hpp"

namespace taut::test {

std::uint64_t random_seed() {
  std::random_device device;
  return device();
}

void fill_randomly(LayerBench& bench, std::uint64_t seed, int classes,
                   std::size_t labels_from_end) {
  std::uint64_t stream = seed * 1000;
  for (Values& bottom : bench.bottoms) bottom = random_values(bottom.size(), ++stream);
  for (Values& parameter : bench.parameters) parameter = random_values(parameter.size(), ++stream);
  for (Values& gradient : bench.top_gradients) gradient = random_values(gradient.size(), ++stream);
  if (classes == 0) return;
  Values& labels = bench.bottoms[bench.bottoms.size() - labels_from_end];
  for (std::size_t i = 0; i < labels.size(); ++i) {
    labels[i] = static_cast<float>(math::Philox::at(seed, 9, i).words[0] %
                                   static_cast<std::uint32_t>(classes));
  }
}

std::vector<Values> results_of(const LayerBench& bench, bool gradients) {
  std::vector<Values> results = bench.tops;
  if (!gradients) return results;
  for (std::size_t i = 0; i < bench.bottoms.size(); ++i) {
    if (bench.differentiable[i]) results.push_back(bench.bottom_gradients[i]);
  }
  results.insert(results.end(), bench.parameter_gradients.begin(), bench.parameter_gradients.end());
  return results;
}

double relative_error(const Values& actual, const Values& expected) {
  if (actual.size() != expected.size()) return std::numeric_limits<double>::infinity();
  double largest = 0;
  double worst = 0;
  for (std::size_t i = 0; i < actual.size(); ++i) {
    const double difference = std::abs(double{actual[i]} - double{expected[i]});
    if (!(difference < std::numeric_limits<double>::infinity())) {
      return std::numeric_limits<double>::infinity();
    }
    worst = std::max(worst, difference);
    largest = std::max(largest, std::abs(double{expected[i]}));
  }
  return largest > 0 ? worst / largest : worst;
}

}  // namespace taut::test
