#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <vector>

#include "proto/control.pb.h"

namespace taut::dashboard {

/// The history of a job, for a page that is opened later: at most kPoints points over its whole
/// length, kept for the newest jobs. When they are full, every second one is dropped.
/// Thread    one
class JobHistory {
 public:
  static constexpr std::size_t kPoints = 1200;
  static constexpr std::size_t kJobs = 8;
  static constexpr std::size_t kChanges = 100;

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
    std::vector<Change> changes;        // the newest kChanges
    double spacing_s = 0;               // the minimum distance between two points
  };
  std::map<std::uint64_t, Series> jobs_;
};

}  // namespace taut::dashboard
