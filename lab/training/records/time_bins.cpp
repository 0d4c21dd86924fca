#include "lab/training/records/time_bins.hpp"

#include <algorithm>

#include "common/check.hpp"

namespace taut::lab {
namespace {

constexpr std::int32_t kNotSet = -2;

}  // namespace

TimeBins::TimeBins(std::size_t sums, std::size_t values, std::size_t bins, Duration width)
    : bins_(bins), width_(width), sums_(sums), values_(values) {
  TAUT_CHECK(bins > 0 && bins % 2 == 0, "two neighbours become one");
  TAUT_CHECK(width > Duration(0), "time grows");
}

// Merges neighbours until there is a bin for this time.
void TimeBins::cover(TimePoint time) {
  while (bin_of(time) >= bins_) {
    for (std::vector<double>& row : sums_) {
      for (std::size_t i = 0; 2 * i + 1 < row.size(); ++i) row[i] = row[2 * i] + row[2 * i + 1];
      std::fill(row.begin() + static_cast<std::ptrdiff_t>(row.size() / 2), row.end(), 0.0);
    }
    for (std::vector<std::int32_t>& row : values_) {
      for (std::size_t i = 0; 2 * i + 1 < row.size(); ++i) {
        row[i] = row[2 * i + 1] != kNotSet ? row[2 * i + 1] : row[2 * i];
      }
      std::fill(row.begin() + static_cast<std::ptrdiff_t>(row.size() / 2), row.end(), kNotSet);
    }
    width_ *= 2;
  }
}

void TimeBins::add(std::size_t number, TimePoint begin, TimePoint end, double amount) {
  end = std::max(begin, end);
  cover(end);
  std::vector<double>& row = sums_[number];
  if (row.empty()) row.resize(bins_);
  const std::size_t first = bin_of(begin);
  const std::size_t last = bin_of(end);
  if (first == last) {
    row[first] += amount;
    return;
  }
  const double density = amount / static_cast<double>((end - begin).count());
  for (std::size_t i = first; i <= last; ++i) {
    const TimePoint from(width_ * static_cast<Duration::rep>(i));
    const Duration part = std::min(end, from + width_) - std::max(begin, from);
    row[i] += density * static_cast<double>(part.count());
  }
}

void TimeBins::set(std::size_t number, TimePoint now, std::int32_t value) {
  cover(now);
  std::vector<std::int32_t>& row = values_[number];
  if (row.empty()) row.resize(bins_, kNotSet);
  row[bin_of(now)] = value;
}

std::size_t TimeBins::count(TimePoint end) const {
  const auto whole = static_cast<std::size_t>((end.since_origin() + width_ - Duration(1)) / width_);
  TAUT_CHECK(whole <= bins_, "its bins are covered");
  return whole;
}

std::vector<std::int32_t> TimeBins::values(std::size_t row, std::size_t count) const {
  std::vector<std::int32_t> filled(count, kNone);
  std::int32_t last = kNone;
  for (std::size_t i = 0; i < std::min(count, values_[row].size()); ++i) {
    if (values_[row][i] != kNotSet) last = values_[row][i];
    filled[i] = last;
  }
  return filled;
}

}  // namespace taut::lab
