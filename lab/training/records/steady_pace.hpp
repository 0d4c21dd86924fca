#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "common/time.hpp"
#include "common/types.hpp"

namespace taut::lab {

/// How fast workers are in the second half of a training, without how they start and end: from when
/// each worker has what it reads for its middle clock to when it has that of its last one. It takes
/// 2 clocks at least.
class SteadyPace {
 public:
  /// clocks  of the whole training
  SteadyPace(std::uint32_t workers, std::int64_t clocks)
      : middle_(Clock((clocks - 1) / 2)), last_(Clock(clocks - 1)), spans_(workers) {}

  /// A worker has what it reads for a clock.
  void begin(std::uint32_t worker, Clock clock, TimePoint now) {
    Span& span = spans_[worker];
    if (clock == middle_ && !span.middle) span.middle = now;
    if (clock == last_ && !span.last) span.last = now;
  }

  /// Clocks a second of a worker, the mean over those that began both clocks; 0: none did.
  [[nodiscard]] double clocks_per_s() const {
    double sum = 0;
    std::size_t count = 0;
    for (const Span& span : spans_) {
      if (!span.middle || !span.last || *span.last <= *span.middle) continue;
      sum += static_cast<double>(last_ - middle_) / seconds(*span.last - *span.middle);
      ++count;
    }
    return count == 0 ? 0 : sum / static_cast<double>(count);
  }

 private:
  struct Span {
    std::optional<TimePoint> middle;
    std::optional<TimePoint> last;
  };

  const Clock middle_;
  const Clock last_;
  std::vector<Span> spans_;  // by worker
};

}  // namespace taut::lab
