#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <string>
#include <utility>

#include "common/time.hpp"
#include "proto/control.pb.h"

namespace taut::cli {

/// What deserves attention in a running job's list of workers.
enum class WorkerMark : std::uint8_t { kNone, kLost, kStalled, kStraggler };

/// The share of its time that a worker waits, by the worker's name.
using WaitShares = std::map<std::string, double>;

/// Over the whole job so far.
[[nodiscard]] WaitShares waits_since_start(const pb::JobStatus& job);

/// Over the last seconds, from successive statuses.
/// Thread    one
class RecentWaits {
 public:
  void take(const pb::JobStatus& job, TimePoint now);
  /// Omits workers observed for less than a second.
  [[nodiscard]] WaitShares shares() const;

 private:
  struct Heard {
    TimePoint at;
    double wait_s = 0;
  };
  std::uint64_t job_ = 0;
  std::deque<std::pair<TimePoint, std::map<std::string, Heard>>> past_;
};

/// Lost; stalled: it has been silent for seconds; straggler: the one that others wait for, judging
/// by their shares.
[[nodiscard]] WorkerMark mark_of(const pb::JobStatus& job, const pb::WorkerStatus& worker,
                                 const WaitShares& waits);

/// The worker's state in a word; for a marked one with a sign before it: "! lost", "? stalled",
/// "< straggler".
[[nodiscard]] std::string state_of(WorkerMark mark, const pb::WorkerStatus& worker);

/// The line in the mark's color; unchanged without a mark.
[[nodiscard]] std::string coloured(WorkerMark mark, const std::string& line);

/// Whether standard output shows colors: a terminal, and NO_COLOR is not set.
[[nodiscard]] bool shows_colours();

}  // namespace taut::cli
