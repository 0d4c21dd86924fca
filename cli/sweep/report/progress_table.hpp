#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "cli/sweep/report/report.hpp"
#include "cli/views/terminal.hpp"
#include "common/time.hpp"

namespace taut::cli {

/// A run that has been started.
struct RunningRun {
  const SweepRun* run = nullptr;
  double seconds = 0;
  std::filesystem::path log;  // of its `tautline train`, whose last line of progress is shown
};

/// Shows a running sweep's progress: a table drawn in place on a terminal, a line for each run
/// elsewhere. Thread: one.
class SweepTable {
 public:
  /// silent   shows nothing
  SweepTable(const SweepPlan& plan, bool silent);

  void show_running(const std::vector<RunningRun>& running);
  /// took_s    0: it had finished before
  void show_finished(const SweepOutcome& outcome, double took_s);

 private:
  void draw();
  [[nodiscard]] std::string time_left() const;

  const SweepPlan& plan_;
  const bool silent_;
  const bool live_ = on_terminal() && !silent_;
  LiveBlock block_;
  std::vector<SweepOutcome> outcomes_;
  double runs_took_s_ = 0;
  std::size_t runs_timed_ = 0;
  std::vector<RunningRun> running_;
  TimePoint next_draw_;
};

/// The points' figures as a table for a terminal, and each group's verdict.
[[nodiscard]] std::vector<std::string> result_lines(const SweepReport& report);

}  // namespace taut::cli
