#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cctype>
#include <cstdio>
#include <span>
#include <sstream>
#include <thread>
#include <utility>

#include "cli/install_paths.hpp"
#include "cli/sweep/slurm_array.hpp"
#include "cli/sweep/sweep_session.hpp"
#include "cli/views/draw.hpp"
#include "common/files/file.hpp"
#include "common/system/stop_signal.hpp"
#include "proto/config/text.hpp"

namespace taut::cli {
namespace {

namespace fs = std::filesystem;

constexpr auto kBetweenLooks = std::chrono::milliseconds(100);
constexpr Duration kBetweenAsks = std::chrono::seconds(2);
// The controller may be restarted in the meantime.
constexpr Duration kUnansweredFor = std::chrono::minutes(10);
// What a task has written may reach this machine later than Slurm's report that it ended: NFS
// caches a folder's attributes for up to a minute (nfs(5), acdirmax).
constexpr Duration kFilesWithin = std::chrono::seconds(90);
constexpr const char* kJobsFile = "slurm-jobs";

/// The array jobs of the folder, oldest first.
std::vector<std::string> jobs_of(const fs::path& folder) {
  std::vector<std::string> jobs;
  const auto text = read_file(folder / kJobsFile);
  std::istringstream lines(text ? text.value() : std::string());
  for (std::string line; std::getline(lines, line);) {
    if (!line.empty()) jobs.push_back(line);
  }
  return jobs;
}

/// The sweep's name as a name in Slurm's queue, which is one word.
std::string name_in_queue(std::string name) {
  std::ranges::replace_if(
      name, [](unsigned char letter) { return std::isspace(letter) != 0 || letter == '%'; }, '-');
  return "sweep-" + name;
}

}  // namespace

std::vector<std::string> slurm_jobs_of(const fs::path& folder) {
  return jobs_of(folder);
}

bool keeps_runs(const SweepPlan& before, const SweepPlan& plan) {
  if (before.runs.size() > plan.runs.size()) return false;
  return std::ranges::equal(before.runs, std::span(plan.runs).first(before.runs.size()),
                            [](const SweepRun& a, const SweepRun& b) {
                              return a.folder == b.folder && a.cluster == b.cluster &&
                                     to_text(a.job) == to_text(b.job);
                            });
}

Result<void> check_queue(const SweepPlan& before, const SweepPlan& plan, const fs::path& folder) {
  const std::vector<std::string> jobs = jobs_of(folder);
  if (jobs.empty() || keeps_runs(before, plan)) return ok();
  const auto queue = ask_queue(jobs, folder);
  if (!queue) {
    return make_error(
        queue.error().code,
        fmt::format("{}: the sweep has other runs now, and whether tasks of Slurm's that know the "
                    "old ones by their numbers are in the queue is unknown: {}; if none is, remove "
                    "{}",
                    folder.string(), queue.error().message, (folder / kJobsFile).string()));
  }
  if (queue.value().living.empty()) return ok();
  return make_error(
      ErrorCode::kExists,
      fmt::format("{}: tasks of Slurm's array job {} are in the queue and know their runs by their "
                  "numbers, which this sweep changes; wait for them with the old one, or end them "
                  "with scancel",
                  folder.string(), fmt::join(queue.value().living, ", ")));
}

Result<std::string> SweepSession::submit_rest(const std::map<std::size_t, std::string>& queued) {
  SlurmArray array;
  for (std::size_t number = 0; number < plan_.runs.size(); ++number) {
    const SweepRun& run = plan_.runs[number];
    const auto known = queued.find(number);
    const bool is_queued = known != queued.end() && !has_ended(known->second);
    if (!is_queued && !is_done(folder_ / run.folder, run)) array.runs.push_back(number);
  }
  if (array.runs.empty()) return std::string();
  std::error_code failed;
  TAUT_TRY(array.program, sibling_program("tautline"));
  array.program = fs::absolute(array.program, failed);
  array.folder = fs::absolute(folder_, failed).lexically_normal();
  array.name = name_in_queue(options_.sweep.name());
  array.at_once = options_.sweep.parallel();
  array.processors = std::max(1U, company_.threads);
  array.options = options_.sbatch;
  TAUT_TRY(std::string job, submit_array(array));
  if (!options_.json) {
    fmt::print("Slurm's array job {}: {}; scancel {} ends it\n", job,
               counted(static_cast<std::int64_t>(array.runs.size()), "run"), job);
    std::fflush(stdout);
  }
  std::string text;
  for (const std::string& one : jobs_of(folder_)) text += one + "\n";
  TAUT_TRY(write_file_atomically(folder_ / kJobsFile, text + job + "\n"));
  return job;
}

/// Reads the runs that have ended; true once no run needs to be waited for.
bool SweepSession::collect(const std::map<std::size_t, std::string>& states) {
  std::vector<RunningRun> shown;
  const TimePoint now = steady_now();
  bool is_over = true;
  for (std::size_t number = 0; number < plan_.runs.size(); ++number) {
    if (outcomes_.contains(number)) continue;
    const SweepRun& run = plan_.runs[number];
    const auto known = states.find(number);
    const std::string state = known == states.end() ? "" : known->second;
    if (is_done(folder_ / run.folder, run)) {
      const auto began = seen_running_.find(number);
      finish(number, {}, began == seen_running_.end() ? 0 : seconds(now - began->second));
      continue;
    }
    if (!state.empty() && !has_ended(state)) {
      is_over = false;
      seen_ended_.erase(number);
      if (state != "RUNNING") continue;
      const TimePoint began = seen_running_.try_emplace(number, now).first->second;
      shown.push_back({&run, seconds(now - began), folder_ / run.folder / "train.log"});
      continue;
    }
    if (now - seen_ended_.try_emplace(number, now).first->second < kFilesWithin) {
      is_over = false;
      continue;
    }
    const std::string reason = failure_in(folder_ / run.folder / "train.log");
    finish(number, fmt::format("{} (Slurm: {})", reason, state.empty() ? "forgotten" : state), 0);
  }
  table_.show_running(shown);
  return is_over;
}

Result<void> SweepSession::run_on_slurm() {
  TAUT_TRY(SlurmQueue queue, ask_queue(jobs_of(folder_), folder_));
  // Jobs that have ended report nothing more: the runs that they left undone are in the new one.
  std::vector<std::string> jobs = std::move(queue.living);
  TAUT_TRY(const std::string submitted, submit_rest(queue.tasks));
  if (!submitted.empty()) jobs.push_back(submitted);
  TimePoint answered = steady_now();
  TimePoint next;
  while (true) {
    const TimePoint now = steady_now();
    if (now >= next) {
      next = now + kBetweenAsks;
      const auto state = ask_queue(jobs, folder_);
      if (state) {
        answered = now;
        if (collect(state.value().tasks)) return ok();
      } else if (now - answered > kUnansweredFor) {
        return make_error(state.error().code,
                          fmt::format("{}; the same command continues", state.error().message));
      }
    }
    std::this_thread::sleep_for(kBetweenLooks);
    if (stop_signal() != 0) return make_error(ErrorCode::kClosed, "interrupted");
  }
}

Result<void> SweepSession::run_task(std::size_t number) {
  if (number >= plan_.runs.size()) {
    return invalid(fmt::format("the sweep in {} has {} runs, and no run {}", folder_.string(),
                               plan_.runs.size(), number));
  }
  next_ = plan_.runs.size();  // no other run is started
  const SweepRun& run = plan_.runs[number];
  if (is_done(folder_ / run.folder, run)) {
    finish(number, {}, 0);
    return ok();
  }
  TAUT_TRY(Active active, start(number));
  active_.push_back(std::move(active));
  return run_all();
}

}  // namespace taut::cli
