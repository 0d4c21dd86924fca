#pragma once

#include <cstddef>
#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "cli/child_process.hpp"
#include "cli/sweep/prepare_run.hpp"
#include "cli/sweep/report/progress_table.hpp"
#include "cli/sweep/sweep.hpp"
#include "common/result.hpp"
#include "common/time.hpp"

namespace taut::cli {

/// The runs of a sweep, each a separate `tautline train`: one after another, or several at the same
/// time.
class SweepSession {
 public:
  SweepSession(const SweepOptions& options, SweepPlan plan, std::filesystem::path folder);

  /// Errors    a folder or a program that cannot be used; closed: interrupted
  [[nodiscard]] Result<void> run_all();
  /// As run_all(), with the runs as tasks of a Slurm array job. Waits for those that are in the
  /// queue, even if an earlier command has submitted them.
  /// Errors    also no Slurm here, or it rejects the job
  [[nodiscard]] Result<void> run_on_slurm();
  /// Runs a single run, as a task of such a job does.
  [[nodiscard]] Result<void> run_task(std::size_t number);
  [[nodiscard]] Result<void> write_report();
  [[nodiscard]] std::size_t failed() const;

 private:
  /// A run that has been started and has not been read.
  struct Active {
    std::size_t number = 0;              // in the plan
    std::vector<ChildProcess> children;  // one
    TimePoint began;
  };

  /// Starts runs until as many run as may; reads those that are finished, or all if only the report
  /// is written.
  [[nodiscard]] Result<void> start_runs();
  [[nodiscard]] Result<Active> start(std::size_t number);
  /// Reads the runs that have ended, and ends those that take too long.
  void look_after(std::vector<Active>& active);
  [[nodiscard]] std::string failure_of(const Active& active);
  /// Submits runs that are neither finished nor queued. Returns the job's number; empty if none are
  /// left.
  [[nodiscard]] Result<std::string> submit_rest(const std::map<std::size_t, std::string>& queued);
  [[nodiscard]] bool collect(const std::map<std::size_t, std::string>& states);
  void finish(std::size_t number, const std::string& failure, double took_s);

  const SweepOptions& options_;
  const SweepPlan plan_;
  const std::filesystem::path folder_;
  const Company company_;
  SweepTable table_;
  std::size_t next_ = 0;  // run of the plan
  std::vector<Active> active_;
  std::map<std::size_t, SweepOutcome> outcomes_;  // by the run's number
  // On Slurm, by the run's number: since when its task was seen to run, or to have ended.
  std::map<std::size_t, TimePoint> seen_running_;
  std::map<std::size_t, TimePoint> seen_ended_;
};

/// The numbers of the array jobs that have run a folder's sweep, oldest first.
[[nodiscard]] std::vector<std::string> slurm_jobs_of(const std::filesystem::path& folder);

/// Whether every run of the plan before has its number in this one, and is the same run.
[[nodiscard]] bool keeps_runs(const SweepPlan& before, const SweepPlan& plan);

/// Whether a folder's sweep may become another one: tasks in the queue must find their own runs.
/// before    the plan for what is in the folder
/// Errors    exists: a task would not find its run; not_found, unavailable: the queue cannot be
///           queried
[[nodiscard]] Result<void> check_queue(const SweepPlan& before, const SweepPlan& plan,
                                       const std::filesystem::path& folder);

}  // namespace taut::cli
