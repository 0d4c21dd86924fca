#pragma once

#include <cstddef>
#include <span>
#include <vector>

namespace taut::cli {

/// Mean and spread of a few values.
struct Spread {
  std::size_t count = 0;
  double mean = 0;
  double deviation = 0;  // sample standard deviation; 0 with fewer than two values
};
[[nodiscard]] Spread spread_of(std::span<const double> values);

/// The probability of a difference of means at least as large if there were none, two-sided; 1
/// where a side has fewer than two values.
/// Source    Welch, "The generalization of Student's problem when several different population
///           variances are involved", Biometrika 34 (1947)
[[nodiscard]] double welch_p(const Spread& a, const Spread& b);

/// The p-values of several tests, raised so that the chance of a false alarm in any of them stays
/// that of one.
/// Source    Holm, "A simple sequentially rejective multiple test procedure", Scandinavian Journal
///           of Statistics 6 (1979)
[[nodiscard]] std::vector<double> holm_adjusted(std::span<const double> p);

}  // namespace taut::cli
