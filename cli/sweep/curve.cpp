#include "cli/sweep/curve.hpp"

#include <algorithm>
#include <cstddef>

#include "cli/sweep/statistics.hpp"

namespace taut::cli {

std::optional<double> value_at(const Curve& curve, double x) {
  if (curve.x.empty() || x < curve.x.front() || x > curve.x.back()) return std::nullopt;
  const auto after = std::lower_bound(curve.x.begin(), curve.x.end(), x);
  const auto right = static_cast<std::size_t>(after - curve.x.begin());
  if (right == 0 || curve.x[right] == x) return curve.y[right];
  const std::size_t left = right - 1;
  const double share = (x - curve.x[left]) / (curve.x[right] - curve.x[left]);
  return curve.y[left] + share * (curve.y[right] - curve.y[left]);
}

std::optional<double> first_reaching(const Curve& curve, double y, bool from_below) {
  for (std::size_t i = 0; i < curve.x.size(); ++i) {
    const bool is_reached = from_below ? curve.y[i] >= y : curve.y[i] <= y;
    if (!is_reached) continue;
    if (i == 0) return curve.x[0];
    const double share = (y - curve.y[i - 1]) / (curve.y[i] - curve.y[i - 1]);
    return curve.x[i - 1] + share * (curve.x[i] - curve.x[i - 1]);
  }
  return std::nullopt;
}

Curve binned(std::span<const double> x, std::span<const double> y, double end, std::size_t bins) {
  std::vector<double> sums(bins, 0);
  std::vector<double> counts(bins, 0);
  for (std::size_t i = 0; i < x.size(); ++i) {
    if (!(x[i] >= 0 && x[i] <= end) || end <= 0) continue;
    const auto bin =
        std::min(static_cast<std::size_t>(x[i] / end * static_cast<double>(bins)), bins - 1);
    sums[bin] += y[i];
    counts[bin] += 1;
  }
  Curve curve;
  for (std::size_t bin = 0; bin < bins; ++bin) {
    if (counts[bin] == 0) continue;
    curve.add((static_cast<double>(bin) + 0.5) * end / static_cast<double>(bins),
              sums[bin] / counts[bin]);
  }
  return curve;
}

Band band_of(std::span<const Curve> curves, std::span<const double> places) {
  Band band;
  for (const double place : places) {
    std::vector<double> values;
    for (const Curve& curve : curves) {
      if (const auto value = value_at(curve, place)) values.push_back(*value);
    }
    if (values.empty() || values.size() < curves.size()) continue;
    const Spread spread = spread_of(values);
    band.x.push_back(place);
    band.mean.push_back(spread.mean);
    band.deviation.push_back(spread.deviation);
  }
  return band;
}

}  // namespace taut::cli
