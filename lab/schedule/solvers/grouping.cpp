#include "lab/schedule/solvers/grouping.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

#include "lab/schedule/solvers/linear_program.hpp"

namespace taut::schedule {

std::vector<Pairing> best_pairs(const std::vector<std::uint32_t>& counts,
                                const std::function<double(std::size_t a, std::size_t b)>& weight) {
  struct Pair {
    Pairing pairing;
    double weight;
  };
  LinearProgram program;
  std::vector<Pair> pairs;
  std::vector<std::vector<LinearProgram::Term>> used(counts.size());
  for (std::size_t a = 0; a < counts.size(); ++a) {
    for (std::size_t b = a; b < counts.size(); ++b) {
      const double value = weight(a, b);
      if (!(value > 0)) continue;
      const std::size_t variable = program.add_variable(value);
      pairs.push_back({{a, b, 0}, value});
      used[a].push_back({variable, a == b ? 2.0 : 1.0});
      if (a != b) used[b].push_back({variable, 1});
    }
  }
  if (pairs.empty()) return {};
  for (std::size_t kind = 0; kind < counts.size(); ++kind) {
    if (!used[kind].empty()) {
      program.add_row(used[kind], -LinearProgram::kNoLimit, counts[kind]);
    }
  }
  const std::vector<double> values = program.maximize();
  std::vector<std::uint32_t> left = counts;
  const auto make = [&left](Pairing& pairing, std::uint32_t most) {
    const std::uint32_t possible =
        pairing.a == pairing.b ? left[pairing.a] / 2 : std::min(left[pairing.a], left[pairing.b]);
    const std::uint32_t formed = std::min(most, possible);
    pairing.pairs += formed;
    left[pairing.a] -= formed;
    left[pairing.b] -= formed;
  };
  for (std::size_t i = 0; i < values.size(); ++i) {
    constexpr double kRounding = 1e-6;
    make(pairs[i].pairing, static_cast<std::uint32_t>(std::floor(values[i] + kRounding)));
  }
  std::ranges::stable_sort(pairs, std::ranges::greater(), &Pair::weight);
  std::vector<Pairing> pairings;
  for (Pair& pair : pairs) {
    make(pair.pairing, std::numeric_limits<std::uint32_t>::max());
    if (pair.pairing.pairs > 0) pairings.push_back(pair.pairing);
  }
  return pairings;
}

}  // namespace taut::schedule
