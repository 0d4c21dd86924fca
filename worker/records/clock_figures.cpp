#include "worker/records/clock_figures.hpp"

#include <algorithm>
#include <utility>

namespace taut::worker {

void IntervalCounter::add(const ClockFigures& figures) {
  losses_ += figures.loss;
  ++clocks_;
}

IntervalFigures IntervalCounter::take(const ClockFigures& figures, TimePoint now) {
  IntervalFigures interval;
  interval.clock = figures.clock;
  interval.loss = losses_ / static_cast<double>(std::max<std::uint64_t>(clocks_, 1));
  interval.wall_s = seconds(now - since_);
  const Duration wait = figures.wait - std::exchange(wait_, figures.wait);
  const Duration whole = figures.compute - std::exchange(compute_, figures.compute);
  interval.wait_s = seconds(wait);
  interval.compute_s = seconds(whole - wait);
  interval.images = figures.images - std::exchange(images_, figures.images);
  double sum = 0;
  if (figures.staleness != nullptr) {
    for (const auto& [staleness, reads] : *figures.staleness) {
      const std::uint64_t more = reads - std::exchange(staleness_[staleness], reads);
      if (more == 0) continue;
      interval.reads += more;
      sum += static_cast<double>(staleness) * static_cast<double>(more);
      interval.staleness_max = std::max(interval.staleness_max, staleness);
    }
  }
  if (interval.reads > 0) interval.staleness_mean = sum / static_cast<double>(interval.reads);
  interval.from_mean = figures.from_mean;
  interval.from_neighbours = figures.from_neighbours;
  since_ = now;
  losses_ = 0;
  clocks_ = 0;
  return interval;
}

}  // namespace taut::worker
