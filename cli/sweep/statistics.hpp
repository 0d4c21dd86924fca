#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <vector>

namespace taut::cli {

/// Mean and spread of a few values.
struct Spread {
  std::size_t count = 0;
  double mean = 0;
  double deviation = 0;  // sample standard deviation; 0 with fewer than two values
};
[[nodiscard]] Spread spread_of(std::span<const double> values);

/// With `digits` decimals, or more where the value would have fewer than two digits: "12.3",
/// "0.027".
[[nodiscard]] std::string figure_text(double value, int digits);

/// "12.3 ± 0.4", both multiplied by `factor`; "–" without values. With more decimals than `digits`
/// if the mean would have fewer than two digits or the deviation would look like 0.
/// sign      between the two, e.g. "±"
[[nodiscard]] std::string plus_minus(const Spread& spread, int digits, const std::string& sign,
                                     double factor = 1);

/// The probability of a sum at least as far from 0 if each difference had a random sign: two-sided.
/// Exact up to 20 differences; beyond, by the normal distribution.
/// Source    Fisher, "The Design of Experiments", 1935, section 21
[[nodiscard]] double sign_flip_p(std::span<const double> differences);

/// The lowest p-value that sign_flip_p() can give for this many differences: that of equal ones.
[[nodiscard]] double lowest_sign_flip_p(std::size_t differences);

/// The fewest differences of each pair with which sign_flip_p() can be below `level` for one pair,
/// after Holm's correction over all pairs.
[[nodiscard]] std::size_t differences_needed(std::size_t pairs, double level);

/// The p-values of several tests, raised so that the chance of a false alarm in any of them is no
/// greater than in one.
/// Source    Holm, "A simple sequentially rejective multiple test procedure", Scandinavian Journal
///           of Statistics 6 (1979)
[[nodiscard]] std::vector<double> holm_adjusted(std::span<const double> p);

}  // namespace taut::cli
