#pragma once

#include <utility>

#include "cli/views/terminal.hpp"
#include "cli/views/worker_marks.hpp"
#include "common/time.hpp"
#include "proto/config/job_words.hpp"
#include "proto/control.pb.h"

namespace taut::cli {

/// Shows a running job: a block drawn in place on a terminal, a line every few seconds elsewhere,
/// and a line for each test. Thread: one.
class ProgressDisplay {
 public:
  explicit ProgressDisplay(JobWords words = {}) : words_(std::move(words)) {}

  void show(const pb::JobStatus& job);

 private:
  void print(const std::vector<std::string>& lines);

  const JobWords words_;
  const bool live_ = on_terminal();
  LiveBlock block_;
  RecentWaits waits_;
  int tests_shown_ = 0;
  TimePoint next_line_;
};

}  // namespace taut::cli
