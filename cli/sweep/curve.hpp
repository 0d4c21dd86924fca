#pragma once

#include <optional>
#include <span>
#include <vector>

namespace taut::cli {

/// A quantity over time or clocks: x ascends.
struct Curve {
  std::vector<double> x;
  std::vector<double> y;

  void add(double at, double value) {
    x.push_back(at);
    y.push_back(value);
  }
};

/// The curve's value at a place, linear between its points. nullopt outside of them.
[[nodiscard]] std::optional<double> value_at(const Curve& curve, double x);

/// Where the curve first reaches a height, from below or from above, linear between its points.
/// nullopt if it never does.
[[nodiscard]] std::optional<double> first_reaching(const Curve& curve, double y,
                                                   bool from_below = true);

/// The means of unordered points (x, y) within `bins` equal parts of [0, end]; the curve skips
/// parts without points.
[[nodiscard]] Curve binned(std::span<const double> x, std::span<const double> y, double end,
                           std::size_t bins);

/// Several runs' curves as one: mean and spread at each place where all of them have a value.
struct Band {
  std::vector<double> x;
  std::vector<double> mean;
  std::vector<double> deviation;
};
[[nodiscard]] Band band_of(std::span<const Curve> curves, std::span<const double> places);

}  // namespace taut::cli
