#pragma once

#include <string>
#include <vector>

#include "cli/views/worker_marks.hpp"
#include "common/time.hpp"
#include "common/types.hpp"
#include "proto/control.pb.h"

namespace taut::cli {

/// A cluster's status as one screen: the running job, its slowest workers, how stale reads were,
/// how busy each shard is, and the log's last lines. Rates are over the time since the previous
/// screen.
/// Thread    one
class TopView {
 public:
  /// colours  of lost workers, stalled ones and stragglers, next to their signs
  /// job      the one to show; none: the first that runs, or else the newest
  explicit TopView(bool colours, JobId job = JobId()) : colours_(colours), job_(job) {}

  /// At most `height` - 1 lines, of which the last names the keys; a thousand workers still fit.
  [[nodiscard]] std::vector<std::string> draw(const pb::StatusReply& status, TimePoint now,
                                              int width, int height);

 private:
  [[nodiscard]] std::vector<std::string> shards(const pb::StatusReply& status, double span_s,
                                                int bar_width) const;

  /// nullptr if the coordinator has none.
  [[nodiscard]] const pb::JobStatus* shown_job(const pb::StatusReply& status) const;

  const bool colours_;
  const JobId job_;
  RecentWaits waits_;
  pb::StatusReply before_;
  TimePoint drawn_;
};

/// The job's workers, the slowest first, at most `most` of them.
[[nodiscard]] pb::JobStatus slowest_workers(const pb::JobStatus& job, int most);

}  // namespace taut::cli
