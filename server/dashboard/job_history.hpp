#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <vector>

#include "proto/control.pb.h"

namespace taut::dashboard {

/// The histories of the newest jobs, for a page that is opened later: at most kMaxPoints points
/// over a job's whole length. When they are full, every second point is dropped.
/// Thread    one
class JobHistory {
 public:
  static constexpr std::size_t kMaxPoints = 1200;
  static constexpr std::size_t kMaxJobs = 8;
  static constexpr std::size_t kMaxChanges = 100;

  /// Adds the shown job's figures if they have changed.
  void add(const pb::JobStatus& job);
  /// Columns: t (seconds of running time), clock, loss, rate (in the job's rate_unit), its older
  /// name images_per_second, apart. `changes` of the slack: t, clock, from, to, and the staleness
  /// of all reads until then. Null: unknown.
  [[nodiscard]] nlohmann::json of(std::uint64_t job) const;

 private:
  struct Point {
    double running_s = 0;
    std::int64_t clock = 0;
    double loss = 0;
    double rate = 0;
    std::int64_t apart = 0;
  };
  struct Change {
    double running_s = 0;
    std::int64_t clock = 0;
    std::int64_t from = 0;
    std::int64_t to = 0;
    nlohmann::json staleness;  // as in the status
  };
  struct Series {
    std::vector<Point> points;
    std::optional<std::int64_t> slack;  // the newest
    std::vector<Change> changes;        // the newest kMaxChanges
    double spacing_s = 0;               // the minimum distance between two points
  };
  std::map<std::uint64_t, Series> jobs_;
};

}  // namespace taut::dashboard
