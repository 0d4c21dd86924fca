#include "cli/sweep/statistics.hpp"

#include <algorithm>
#include <boost/math/distributions/students_t.hpp>
#include <cmath>
#include <numeric>

namespace taut::cli {

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

double welch_p(const Spread& a, const Spread& b) {
  if (a.count < 2 || b.count < 2) return 1;
  const auto na = static_cast<double>(a.count);
  const auto nb = static_cast<double>(b.count);
  const double va = a.deviation * a.deviation / na;
  const double vb = b.deviation * b.deviation / nb;
  if (va + vb <= 0) return a.mean == b.mean ? 1 : 0;
  const double t = std::abs(a.mean - b.mean) / std::sqrt(va + vb);
  const double freedom = (va + vb) * (va + vb) / (va * va / (na - 1) + vb * vb / (nb - 1));
  return 2 * boost::math::cdf(boost::math::complement(boost::math::students_t(freedom), t));
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
