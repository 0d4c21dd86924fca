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

/// The probability of a sum at least as far from 0 if the sign of each difference were a coin's:
/// two-sided. Exact up to 20 differences; beyond, by the normal distribution.
/// Source    Fisher, "The Design of Experiments", 1935, section 21
[[nodiscard]] double sign_flip_p(std::span<const double> differences);

/// The lowest p-value that sign_flip_p() can give for so many differences.
[[nodiscard]] double lowest_sign_flip_p(std::size_t differences);

/// The p-values of several tests, raised so that the chance of a false alarm in any of them stays
/// that of one.
/// Source    Holm, "A simple sequentially rejective multiple test procedure", Scandinavian Journal
///           of Statistics 6 (1979)
[[nodiscard]] std::vector<double> holm_adjusted(std::span<const double> p);

}  // namespace taut::cli
