#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "cli/sweep/report.hpp"
#include "cli/views/terminal.hpp"
#include "common/time.hpp"

namespace taut::cli {

/// Shows a sweep while it goes: a table drawn in place on a terminal, a line for each run
/// elsewhere. Thread: one.
class SweepTable {
 public:
  /// silent   shows nothing
  SweepTable(const SweepPlan& plan, bool silent);

  /// log  of the run's `tautline train`: its last line of progress is shown
  void show_running(const SweepRun& run, double seconds, const std::filesystem::path& log);
  void show_finished(const SweepOutcome& outcome);

 private:
  void draw(const SweepRun* running, double seconds, const std::string& progress);

  const SweepPlan& plan_;
  const bool silent_;
  const bool live_ = on_terminal() && !silent_;
  LiveBlock block_;
  std::vector<SweepOutcome> outcomes_;
  double runs_took_s_ = 0;
  std::size_t runs_timed_ = 0;
  double running_s_ = 0;
  TimePoint next_draw_;
};

/// The points' figures as a table for a terminal, and each group's verdict.
[[nodiscard]] std::vector<std::string> result_lines(const SweepReport& report);

}  // namespace taut::cli
