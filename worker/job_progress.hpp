#pragma once

#include <string>

#include "common/recent_rate.hpp"
#include "common/time.hpp"
#include "proto/control.pb.h"
#include "worker/job_run.hpp"
#include "worker/progress.hpp"

namespace taut::worker {

/// How a run ended, if it has.
struct RunEnd {
  bool finished = false;
  std::string error;
  JobOutcome outcome;
};

/// A worker's report of its run to the coordinator, without its part of a checkpoint.
/// begun  when the run started
/// rate   of images; takes its next sample
[[nodiscard]] pb::Progress progress_of(const pb::WorkerJob& job, TimePoint begun,
                                       const ProgressBoard& board, const RunEnd& end,
                                       RecentRate& rate, TimePoint now);

}  // namespace taut::worker
