#include "cli/sweep/statistics.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <boost/math/distributions/normal.hpp>
#include <cmath>
#include <numeric>

namespace taut::cli {
namespace {

constexpr std::size_t kMaxExact = 20;

}  // namespace

Spread spread_of(std::span<const double> values) {
  Spread spread;
  spread.count = values.size();
  if (values.empty()) return spread;
  const auto count = static_cast<double>(values.size());
  spread.mean = std::accumulate(values.begin(), values.end(), 0.0) / count;
  double squares = 0;
  for (const double value : values) squares += (value - spread.mean) * (value - spread.mean);
  if (values.size() > 1) spread.deviation = std::sqrt(squares / (count - 1));
  return spread;
}

namespace {

constexpr int kMaxDigits = 9;

/// Decimals with which the value has at least two significant digits.
int digits_for(double value, int digits) {
  if (value == 0 || !std::isfinite(value)) return digits;
  return std::clamp(1 - static_cast<int>(std::floor(std::log10(std::abs(value)))), digits,
                    kMaxDigits);
}

}  // namespace

std::string figure_text(double value, int digits) {
  return fmt::format("{:.{}f}", value, digits == 0 ? 0 : digits_for(value, digits));
}

std::string plus_minus(const Spread& spread, int digits, const std::string& sign, double factor) {
  if (spread.count == 0) return "–";
  const double deviation = factor * spread.deviation;
  if (digits > 0) digits = digits_for(factor * spread.mean, digits);
  // Half of the last digit is rounded up.
  if (deviation > 0 && deviation < 0.5 * std::pow(10, -digits)) {
    digits = std::min(kMaxDigits, -static_cast<int>(std::floor(std::log10(deviation))));
  }
  std::string text = fmt::format("{:.{}f}", factor * spread.mean, digits);
  if (spread.count < 2) return text;
  return text + (deviation > 0 ? fmt::format(" {} {:.{}f}", sign, deviation, digits)
                               : fmt::format(" {} 0", sign));
}

double sign_flip_p(std::span<const double> differences) {
  double observed = 0;
  double squares = 0;
  double size = 0;
  for (const double difference : differences) {
    observed += difference;
    squares += difference * difference;
    size += std::abs(difference);
  }
  if (differences.empty() || squares <= 0) return 1;
  if (differences.size() > kMaxExact) {
    const double z = std::abs(observed) / std::sqrt(squares);
    return 2 * boost::math::cdf(boost::math::complement(boost::math::normal(), z));
  }
  // Sums that are equal except for rounding count as equal.
  const double least = std::abs(observed) - 1e-9 * size;
  const std::size_t flips = std::size_t{1} << differences.size();
  std::size_t as_far = 0;
  for (std::size_t signs = 0; signs < flips; ++signs) {
    double sum = 0;
    for (std::size_t i = 0; i < differences.size(); ++i) {
      sum += (signs >> i & 1U) != 0 ? differences[i] : -differences[i];
    }
    if (std::abs(sum) >= least) ++as_far;
  }
  return static_cast<double>(as_far) / static_cast<double>(flips);
}

double lowest_sign_flip_p(std::size_t differences) {
  if (differences == 0) return 1;
  // Among all signs, only the two choices with equal signs give as large a sum.
  if (differences <= kMaxExact) return std::ldexp(1.0, 1 - static_cast<int>(differences));
  return sign_flip_p(std::vector<double>(differences, 1.0));
}

std::size_t differences_needed(std::size_t pairs, double level) {
  std::size_t needed = 1;
  while (static_cast<double>(pairs) * lowest_sign_flip_p(needed) >= level) ++needed;
  return needed;
}

std::vector<double> holm_adjusted(std::span<const double> p) {
  std::vector<std::size_t> order(p.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) { return p[a] < p[b]; });
  std::vector<double> adjusted(p.size());
  double highest = 0;
  for (std::size_t rank = 0; rank < order.size(); ++rank) {
    const double raised = p[order[rank]] * static_cast<double>(p.size() - rank);
    highest = std::max(highest, std::min(raised, 1.0));
    adjusted[order[rank]] = highest;
  }
  return adjusted;
}

}  // namespace taut::cli
