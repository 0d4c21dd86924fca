#include "cli/sweep/sweep.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <memory>
#include <optional>
#include <sstream>
#include <thread>

#include "cli/child_process.hpp"
#include "cli/commands/command.hpp"
#include "cli/commands/train.hpp"
#include "cli/install_paths.hpp"
#include "cli/sweep/prepare_run.hpp"
#include "cli/sweep/progress_table.hpp"
#include "cli/sweep/report.hpp"
#include "cli/sweep/report_json.hpp"
#include "cli/sweep/sweep_setting.hpp"
#include "cli/views/draw.hpp"
#include "common/files/file.hpp"
#include "common/stop_signal.hpp"
#include "common/time.hpp"
#include "proto/config/text.hpp"

namespace taut::cli {
namespace {

namespace fs = std::filesystem;

constexpr auto kBetweenLooks = std::chrono::milliseconds(100);
constexpr Duration kGrace{6'000'000};

/// The runs of a sweep, one after the other, each a separate `tautline train`.
class SweepSession {
 public:
  SweepSession(const SweepOptions& options, SweepPlan plan, fs::path folder)
      : options_(options),
        plan_(std::move(plan)),
        folder_(std::move(folder)),
        table_(plan_, options.json) {}

  /// Errors    a folder or a program that cannot be used; interrupted
  [[nodiscard]] Result<void> run_all();
  [[nodiscard]] Result<void> write_report();
  [[nodiscard]] std::size_t failed() const;

 private:
  [[nodiscard]] Result<std::string> run_one(const SweepRun& run);
  void finish(const SweepRun& run, const std::string& failure);

  const SweepOptions& options_;
  const SweepPlan plan_;
  const fs::path folder_;
  SweepTable table_;
  std::vector<SweepOutcome> outcomes_;
};

/// Returns why the run failed; empty: it did not.
Result<std::string> SweepSession::run_one(const SweepRun& run) {
  const fs::path folder = folder_ / run.folder;
  TAUT_TRY(prepare_run(folder, run));
  TAUT_TRY(const fs::path program, sibling_program("tautline"));
  const pb::Sweep& sweep = options_.sweep;
  TAUT_TRY(auto child,
           ChildProcess::start(
               {.name = run.folder,
                .program = program,
                .arguments = {"train", (folder / "job.textproto").string(), "--discard", "--output",
                              folder.string(), "--servers", std::to_string(sweep.servers()),
                              "--shards", std::to_string(sweep.shards()), "--threads",
                              std::to_string(sweep.threads())},
                .log = folder / "train.log"}));
  std::vector<ChildProcess> children;
  children.push_back(std::move(child));
  const TimePoint began = steady_now();
  while (children[0].running()) {
    std::this_thread::sleep_for(kBetweenLooks);
    const double took = seconds(steady_now() - began);
    table_.show_running(run, took, folder / "train.log");
    if (stop_signal() != 0) {
      end_all(children, kGrace);
      return make_error(ErrorCode::kClosed, "interrupted");
    }
    if (took > sweep.limit_s()) {
      end_all(children, kGrace);
      return fmt::format("took longer than limit_s, {:g} s", sweep.limit_s());
    }
  }
  if (children[0].ended_well() && is_done(folder, run)) return std::string();
  const std::string reason = failure_in(folder / "train.log");
  return children[0].ended_well() ? reason : fmt::format("{} ({})", reason, children[0].ending());
}

void SweepSession::finish(const SweepRun& run, const std::string& failure) {
  SweepOutcome outcome{run, std::nullopt, failure};
  if (failure.empty()) {
    if (auto result = read_run(folder_ / run.folder, plan_.metric)) {
      outcome.result = std::move(result.value());
    } else {
      outcome.failure = result.error().message;
    }
  }
  table_.show_finished(outcome);
  outcomes_.push_back(std::move(outcome));
}

Result<void> SweepSession::run_all() {
  for (const SweepRun& run : plan_.runs) {
    std::string failure;
    if (!is_done(folder_ / run.folder, run)) {
      if (options_.report_only) {
        failure = kNotRun;
      } else {
        TAUT_TRY(failure, run_one(run));
      }
    }
    finish(run, failure);
  }
  return ok();
}

std::size_t SweepSession::failed() const {
  return static_cast<std::size_t>(
      std::count_if(outcomes_.begin(), outcomes_.end(),
                    [](const SweepOutcome& outcome) { return !outcome.result; }));
}

/// "every 20 clocks", and that the sweep chose it.
std::string test_interval_text(const SweepPoint& point) {
  const std::int32_t interval = point.job.solver_param().test_interval();
  std::string text = "every " + counted(interval, "clock");
  if (interval == point.given_interval) return text;
  if (point.given_interval == 0) return text + "; the job names no interval";
  return text + fmt::format("; the job's own interval of {} gives a run too few",
                            counted(point.given_interval, "clock"));
}

std::vector<std::pair<std::string, std::string>> setting_of(const SweepOptions& options,
                                                            const SweepPlan& plan) {
  const pb::Job& job = plan.points.front().job;
  std::vector<std::pair<std::string, std::string>> setting{
      {"job", job.name()},
      {"solver", fmt::format("{}, base_lr {:g} ({}), {} iterations of each worker",
                             job.solver_param().type(), job.solver_param().base_lr(),
                             job.solver_param().lr_policy(), job.solver_param().max_iter())},
      {"servers",
       fmt::format("{}, shards of each: {}", options.sweep.servers(), options.sweep.shards())},
      {"runs", fmt::format("{}: {}, {} each", plan.runs.size(),
                           counted(static_cast<std::int64_t>(plan.points.size()), "point"),
                           counted(options.sweep.seeds(), "seed"))}};
  if (const std::string batch = batch_text(job); !batch.empty()) {
    setting.emplace_back("batch size", batch);
  }
  setting.emplace_back("tests", test_interval_text(plan.points.front()));
  if (job.clock_time_ms() > 0) {
    setting.emplace_back("clock time", fmt::format("at least {:g} ms", job.clock_time_ms()));
  }
  for (const pb::Straggler& straggler : job.straggler()) {
    setting.emplace_back("straggler", straggler.ShortDebugString());
  }
  for (const pb::SweepPolicy& policy : options.sweep.policy()) {
    setting.emplace_back(policy.name(), policy.consistency().ShortDebugString());
  }
  if (job.has_network()) setting.emplace_back("network", job.network().ShortDebugString());
  for (auto& line : describe_host()) setting.push_back(std::move(line));
  return setting;
}

Result<void> SweepSession::write_report() {
  std::optional<double> given;
  if (options_.sweep.has_target_accuracy()) given = options_.sweep.target_accuracy();
  if (options_.sweep.has_target()) given = options_.sweep.target();
  SweepReport report;
  report.name = options_.sweep.name();
  report.target = target_of(plan_.metric, given, outcomes_);
  report.points = figures_of(plan_, outcomes_, report.target);
  report.outcomes = outcomes_;
  report.setting = setting_of(options_, plan_);
  for (auto& line : beginning_of(folder_)) report.setting.push_back(std::move(line));
  TAUT_TRY(write_file_atomically(folder_ / "runs.csv", runs_csv(report)));
  TAUT_TRY(write_file_atomically(folder_ / "points.csv", points_csv(report)));
  TAUT_TRY(write_file_atomically(folder_ / "curves.csv", curves_csv(report)));
  TAUT_TRY(write_file_atomically(folder_ / "report.html", report_html(report)));
  if (options_.json) {
    fmt::print("{}\n", report_json(report, folder_ / "report.html"));
    return ok();
  }
  for (const std::string& line : result_lines(report)) fmt::print("{}\n", line);
  fmt::print("report: {}\n", (folder_ / "report.html").string());
  return ok();
}

constexpr const char* kGridFile = "sweep.textproto";
constexpr const char* kBaseFile = "base_job.textproto";

/// What a folder is the sweep of: its grid, and the job as resolved.
struct Grid {
  pb::Sweep sweep;
  pb::Job base;
};

/// nullopt: the folder has no sweep. Errors: a file that cannot be read.
Result<std::optional<Grid>> grid_in(const fs::path& folder) {
  std::error_code failed;
  if (!fs::exists(folder / kGridFile, failed)) return std::optional<Grid>();
  Grid grid;
  TAUT_TRY(read_text(folder / kGridFile, grid.sweep));
  TAUT_TRY(read_text(folder / kBaseFile, grid.base));
  return std::optional(std::move(grid));
}

Result<void> write_grid(const fs::path& folder, const Grid& grid) {
  TAUT_TRY(write_file_atomically(folder / kBaseFile, to_text(grid.base)));
  return write_file_atomically(folder / kGridFile, to_text(grid.sweep));
}

/// A finished run of the folder's own sweep that the plan does not have; empty: there is none.
Result<std::string> run_outside(const fs::path& folder, const SweepPlan& plan) {
  TAUT_TRY(const std::optional<Grid> grid, grid_in(folder));
  if (!grid) return std::string();
  TAUT_TRY(const SweepPlan before, plan_sweep(grid->sweep, grid->base));
  for (const SweepRun& run : before.runs) {
    const bool is_kept = std::ranges::any_of(plan.runs, [&](const SweepRun& other) {
      return other.folder == run.folder && is_done(folder / other.folder, other);
    });
    if (!is_kept && is_done(folder / run.folder, run)) return run.folder;
  }
  return std::string();
}

fs::path folder_of(const SweepOptions& options) {
  return options.output.empty() ? fs::path("runs") / options.sweep.name()
                                : fs::path(options.output);
}

Result<pb::Job> base_job(const SweepOptions& options) {
  TrainOptions train;
  train.json = options.json;
  train.job_file = options.job_file;
  train.job.data = options.data;
  return training_job(train);
}

}  // namespace

Result<SweepOptions> load_sweep(const std::string& file) {
  SweepOptions options;
  TAUT_TRY(read_text(file, options.sweep));
  if (options.sweep.has_job()) {
    TAUT_TRY(const fs::path found, find_mentioned(options.sweep.job(), file));
    options.job_file = found.string();
  }
  if (!options.sweep.has_name()) options.sweep.set_name(fs::path(file).stem().string());
  return options;
}

Result<pb::SweepPolicy> load_policy(const std::string& file) {
  pb::Job job;
  TAUT_TRY(read_text(file, job));
  if (!job.has_consistency()) {
    return invalid(
        fmt::format("{}: has no consistency section, which is what a policy is taken from", file));
  }
  pb::SweepPolicy policy;
  policy.set_name(fs::path(file).stem().string());
  *policy.mutable_consistency() = job.consistency();
  return policy;
}

namespace {

/// The folder's own grid, whatever grid the command line asks for; the target may be another.
Result<Grid> grid_to_report(const SweepOptions& options) {
  const fs::path folder = folder_of(options);
  TAUT_TRY(std::optional<Grid> grid, grid_in(folder));
  if (!grid) {
    return make_error(
        ErrorCode::kNotFound,
        fmt::format("{} has no sweep: {} is missing; name the sweep's folder with --output, or "
                    "leave out --report-only, which runs again only what has not finished",
                    folder.string(), kGridFile));
  }
  if (options.sweep.has_target_accuracy()) {
    grid->sweep.set_target_accuracy(options.sweep.target_accuracy());
  }
  return std::move(*grid);
}

Result<Grid> grid_to_run(const SweepOptions& options) {
  Grid grid;
  grid.sweep = options.sweep;
  TAUT_TRY(grid.base, base_job(options));
  return grid;
}

}  // namespace

int run_sweep(const SweepOptions& asked) {
  watch_stop_signals();
  auto grid = asked.report_only ? grid_to_report(asked) : grid_to_run(asked);
  if (!grid) return fail("sweep", grid.error().message);
  SweepOptions options = asked;
  options.sweep = grid.value().sweep;
  auto plan = plan_sweep(options.sweep, grid.value().base);
  if (!plan) {
    std::istringstream lines(plan.error().message);
    for (std::string line; std::getline(lines, line);) fail("sweep", line);
    return kFailed;
  }
  const fs::path folder = folder_of(asked);
  const auto outside = run_outside(folder, plan.value());
  if (!outside) return fail("sweep", outside.error().message);
  if (!outside.value().empty()) {
    return fail("sweep",
                fmt::format("{} has another sweep: its run {} is not part of this one; name "
                            "another folder with --output, or use --report-only",
                            folder.string(), outside.value()));
  }
  std::error_code failed;
  fs::create_directories(folder, failed);
  if (failed) {
    return fail("sweep", fmt::format("cannot make the folder {}: {}; name another with --output",
                                     folder.string(), failed.message()));
  }
  if (!options.report_only) {
    auto written = write_grid(folder, grid.value());
    if (written) written = write_beginning(folder);
    if (!written) return fail("sweep", written.error().message);
  }
  if (!options.json)
    fmt::print("{}: {} with {} each, {}, folder {}\n", options.sweep.name(),
               counted(static_cast<std::int64_t>(plan.value().points.size()), "point"),
               counted(options.sweep.seeds(), "seed"),
               counted(static_cast<std::int64_t>(plan.value().runs.size()), "run"),
               folder.string());
  std::fflush(stdout);
  SweepSession session(options, std::move(plan.value()), folder);
  if (const auto ran = session.run_all(); !ran) {
    if (stop_signal() == 0) return fail("sweep", ran.error().message);
    fail("sweep", "interrupted; the same command continues where it stopped");
    return 128 + stop_signal();
  }
  if (const auto written = session.write_report(); !written) {
    return fail("sweep", written.error().message);
  }
  if (session.failed() == 0) return kFine;
  return fail("sweep", fmt::format("{} {}; the report names each with its reason",
                                   counted(static_cast<std::int64_t>(session.failed()), "run"),
                                   options.report_only ? "missing" : "failed"));
}

}  // namespace taut::cli
