#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "common/time.hpp"

namespace taut::lab {

/// Amounts and values over virtual time, in rows of equal bins starting at time 0. The number of
/// bins is limited: when time exceeds them, each two neighbours are merged, so memory does not grow
/// with time. A row takes memory from its first entry on.
class TimeBins {
 public:
  static constexpr std::int32_t kNone = -1;  // no value

  /// sums, values  rows of each kind
  /// REQUIRES: bins is even and greater than 0, width greater than 0
  TimeBins(std::size_t sums, std::size_t values, std::size_t bins, Duration width);

  /// Adds an amount to a row of sums, spread evenly from `begin` to `end`; all at `begin` if they
  /// are equal.
  void add(std::size_t row, TimePoint begin, TimePoint end, double amount);
  /// A row of values has this value from `now` on. REQUIRES: value >= 0, or kNone
  void set(std::size_t row, TimePoint now, std::int32_t value);

  /// Extends the bins up to a time, even if nothing has happened until then.
  void cover(TimePoint time);

  [[nodiscard]] Duration width() const { return width_; }
  /// The number of bins up to `end`. REQUIRES: they are covered
  [[nodiscard]] std::size_t count(TimePoint end) const;
  /// The amounts in each bin; empty if nothing was added.
  [[nodiscard]] std::span<const double> sums(std::size_t row) const { return sums_[row]; }
  /// The value at the end of each of the first `count` bins; kNone: none, or none yet.
  [[nodiscard]] std::vector<std::int32_t> values(std::size_t row, std::size_t count) const;

 private:
  [[nodiscard]] std::size_t bin_of(TimePoint time) const {
    return static_cast<std::size_t>(time.since_origin() / width_);
  }

  const std::size_t bins_;
  Duration width_;
  std::vector<std::vector<double>> sums_;
  std::vector<std::vector<std::int32_t>> values_;  // kNotSet where a bin's was not set
};

}  // namespace taut::lab
