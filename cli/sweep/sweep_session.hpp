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

/// The runs of a sweep, each a separate `tautline train`: one after the other, or several at the
/// same time.
class SweepSession {
 public:
  SweepSession(const SweepOptions& options, SweepPlan plan, std::filesystem::path folder);

  /// Errors    a folder or a program that cannot be used; closed: interrupted
  [[nodiscard]] Result<void> run_all();
  /// As run_all(), with the runs as tasks of an array job of Slurm's. Those that are in the queue
  /// are waited for, also when an earlier command has submitted them.
  /// Errors    also no Slurm here, or it does not take the job
  [[nodiscard]] Result<void> run_on_slurm();
  /// Runs one alone, as a task of such a job does.
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

  /// Starts runs until as many run as may; those that are finished, and all if only the report is
  /// to be written, are read.
  [[nodiscard]] Result<void> start_runs();
  [[nodiscard]] Result<Active> start(std::size_t number);
  /// Reads the runs that have ended, and ends those that take too long.
  void look_after(std::vector<Active>& active);
  [[nodiscard]] std::string failure_of(const Active& active);
  /// Submits what is neither finished nor queued. Returns the job's number; empty: all is.
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
  // On Slurm, by the run's number: since when its task is seen to run, or to have ended.
  std::map<std::size_t, TimePoint> seen_running_;
  std::map<std::size_t, TimePoint> seen_ended_;
};

/// The numbers of the array jobs that have run a folder's sweep, oldest first.
[[nodiscard]] std::vector<std::string> slurm_jobs_of(const std::filesystem::path& folder);

/// Whether every run of the plan before has its number in this one, and is the same run.
[[nodiscard]] bool keeps_runs(const SweepPlan& before, const SweepPlan& plan);

/// Whether a folder's sweep may become another one: tasks in the queue must find their own runs.
/// before    the plan of what is in the folder
/// Errors    exists: a task would not find its run; not_found, unavailable: the queue cannot be
///           queried
[[nodiscard]] Result<void> check_queue(const SweepPlan& before, const SweepPlan& plan,
                                       const std::filesystem::path& folder);

}  // namespace taut::cli
