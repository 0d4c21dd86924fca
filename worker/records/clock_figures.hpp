#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "common/time.hpp"
#include "common/types.hpp"

namespace taut::worker {

/// A worker's figures when a clock ends: times, images and reads count from the job's start.
struct ClockFigures {
  Clock clock;          // the one that ended
  double loss = 0;      // of this clock alone
  Duration compute{0};  // whole clocks, waiting included
  Duration wait{0};     // for parameters and data
  std::uint64_t images = 0;
  const std::map<std::int64_t, std::uint64_t>* staleness = nullptr;  // reads by staleness
  std::optional<double> from_mean{};                                 // as in Disagreement
  std::optional<double> from_neighbours{};
};

/// A worker's figures between two lines of a record.
struct IntervalFigures {
  Clock clock;           // the last one
  double loss = 0;       // mean over the interval's clocks
  double wall_s = 0;     // the interval's length
  double compute_s = 0;  // without waiting
  double wait_s = 0;
  std::uint64_t images = 0;
  std::uint64_t reads = 0;
  double staleness_mean = 0;  // over the interval's reads
  std::int64_t staleness_max = 0;
  std::optional<double> from_mean{};  // at the interval's end
  std::optional<double> from_neighbours{};

  [[nodiscard]] double images_per_second() const {
    return wall_s > 0 ? static_cast<double>(images) / wall_s : 0;
  }
};

struct TestFigures {
  Clock clock;  // clocks that were finished before the test
  std::optional<double> accuracy;
  double loss = 0;
  std::vector<std::pair<std::string, double>> outputs =
      {};  // every number that the test net outputs
  double took_s = 0;
};

/// Converts totals to intervals. Thread: one.
class IntervalCounter {
 public:
  explicit IntervalCounter(TimePoint now) : since_(now) {}
  /// Adds a clock that ended; the loss is averaged over those since the last take().
  void add(const ClockFigures& figures);
  /// The clocks since the last call. REQUIRES: add() was called since.
  [[nodiscard]] IntervalFigures take(const ClockFigures& figures, TimePoint now);

 private:
  TimePoint since_;
  double losses_ = 0;
  std::uint64_t clocks_ = 0;
  Duration compute_{0};
  Duration wait_{0};
  std::uint64_t images_ = 0;
  std::map<std::int64_t, std::uint64_t> staleness_;
};

}  // namespace taut::worker
