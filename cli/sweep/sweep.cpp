#include "cli/sweep/sweep.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <optional>
#include <sstream>

#include "cli/commands/shared_options.hpp"
#include "cli/commands/training/train.hpp"
#include "cli/install_paths.hpp"
#include "cli/sweep/comparison.hpp"
#include "cli/sweep/prepare_run.hpp"
#include "cli/sweep/sweep_session.hpp"
#include "cli/sweep/sweep_setting.hpp"
#include "cli/views/draw.hpp"
#include "common/files/file.hpp"
#include "common/system/stop_signal.hpp"
#include "proto/config/text.hpp"
#include "proto/config/text_places.hpp"

namespace taut::cli {
namespace {

namespace fs = std::filesystem;

constexpr const char* kGridFile = "sweep.textproto";
constexpr const char* kBaseFile = "base_job.textproto";
constexpr Bytes kMaxText{16UL << 20U};

/// The sweep that a folder contains: its grid, and the job as resolved.
struct Grid {
  pb::Sweep sweep;
  pb::Job base;
};

/// nullopt if the folder has no sweep. Errors: a file that cannot be read.
Result<std::optional<Grid>> grid_in(const fs::path& folder) {
  std::error_code failed;
  if (!fs::exists(folder / kGridFile, failed)) return std::optional<Grid>();
  Grid grid;
  TAUT_TRY(read_text(folder / kGridFile, grid.sweep));
  TAUT_TRY(read_text(folder / kBaseFile, grid.base));
  return std::optional(std::move(grid));
}

bool have_one_target(const pb::Sweep& a, const pb::Sweep& b) {
  return a.metric() == b.metric() && a.has_target() == b.has_target() && a.target() == b.target() &&
         a.has_target_accuracy() == b.has_target_accuracy() &&
         a.target_accuracy() == b.target_accuracy();
}

Result<void> write_grid(const fs::path& folder, const Grid& grid) {
  TAUT_TRY(write_file_atomically(folder / kBaseFile, to_text(grid.base)));
  return write_file_atomically(folder / kGridFile, to_text(grid.sweep));
}

/// Whether this sweep may replace the one in the folder.
/// Errors    exists: a finished run would not be part of it, or tasks in Slurm's queue are part of
///           the folder's own
Result<void> check_folder(const fs::path& folder, const SweepPlan& plan) {
  TAUT_TRY(const std::optional<Grid> grid, grid_in(folder));
  if (!grid) return ok();
  TAUT_TRY(const SweepPlan before, plan_sweep(grid->sweep, grid->base));
  for (const SweepRun& run : before.runs) {
    const bool is_kept = std::ranges::any_of(plan.runs, [&](const SweepRun& other) {
      return other.folder == run.folder && is_done(folder / other.folder, other);
    });
    if (is_kept || !is_done(folder / run.folder, run)) continue;
    return make_error(
        ErrorCode::kExists,
        fmt::format("{} has another sweep: its run {} is not part of this one; name another folder "
                    "with --output, or use --report-only",
                    folder.string(), run.folder));
  }
  return check_queue(before, plan, folder);
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
  TAUT_TRY(const std::string text, read_file(file, kMaxText));
  PlacedText placed;
  TAUT_TRY(placed.read(text, file, options.sweep));
  if (options.sweep.has_job()) {
    TAUT_TRY(const fs::path found, find_mentioned(options.sweep.job(), file));
    options.job_file = found.string();
  }
  for (int i = 0; i < options.sweep.cluster_size(); ++i) {
    const auto found = find_mentioned(options.sweep.cluster(i), file);
    if (!found) return placed.error({{"cluster", i}}, found.error().message);
    options.sweep.set_cluster(i, fs::absolute(found.value()).string());
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

/// The folder's own grid, whatever grid the command line requests; the metric and its target may
/// differ.
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
  const pb::Sweep& requested = options.sweep;
  const bool has_target = requested.has_target() || requested.has_target_accuracy();
  if (has_target || (requested.has_metric() && requested.metric() != grid->sweep.metric())) {
    grid->sweep.clear_target();
    grid->sweep.clear_target_accuracy();
  }
  if (requested.has_metric()) grid->sweep.set_metric(requested.metric());
  if (requested.has_target()) grid->sweep.set_target(requested.target());
  if (requested.has_target_accuracy()) grid->sweep.set_target_accuracy(requested.target_accuracy());
  return std::move(*grid);
}

Result<Grid> grid_to_run(const SweepOptions& options) {
  Grid grid;
  grid.sweep = options.sweep;
  TAUT_TRY(grid.base, base_job(options));
  return grid;
}

/// The first lines of a sweep: what it will run, and what these runs cannot show.
void print_plan(const SweepOptions& options, const SweepPlan& plan, const fs::path& folder) {
  fmt::print("{}: {} with {} each, {}, folder {}\n", options.sweep.name(),
             counted(std::ssize(plan.points), "point"), counted(options.sweep.seeds(), "seed"),
             counted(std::ssize(plan.runs), "run"), folder.string());
  if (!options.report_only) {
    if (const std::string line = too_few_seeds(plan, options.sweep.seeds()); !line.empty()) {
      fmt::print("{}\n", line);
    }
  }
  std::fflush(stdout);
}

Result<void> run(SweepSession& session, const SweepOptions& options) {
  if (options.task) return session.run_task(*options.task);
  if (options.on_slurm && !options.report_only) return session.run_on_slurm();
  return session.run_all();
}

/// Whether the sweep can be planned without the command-line options: then it is a usage mistake.
bool is_of_options(const SweepOptions& requested, const pb::Job& base) {
  if (!requested.report_only) return plan_sweep(requested.from_files, base).has_value();
  const auto grid = grid_in(folder_of(requested));
  return grid && grid.value() && plan_sweep(grid.value()->sweep, base).has_value();
}

}  // namespace

int run_sweep(const SweepOptions& requested) {
  watch_stop_signals();
  const bool is_of_folder = requested.report_only || requested.task;
  auto grid = is_of_folder ? grid_to_report(requested) : grid_to_run(requested);
  if (!grid) return fail("sweep", grid.error().message);
  SweepOptions options = requested;
  options.sweep = grid.value().sweep;
  auto plan = plan_sweep(options.sweep, grid.value().base);
  if (!plan) {
    std::istringstream lines(plan.error().message);
    for (std::string line; std::getline(lines, line);) fail("sweep", line);
    return is_of_options(requested, grid.value().base) ? kUsage : kFailed;
  }
  const fs::path folder = folder_of(requested);
  if (const auto before = grid_in(folder); before && before.value()) {
    options.target_is_late = !have_one_target(before.value()->sweep, options.sweep);
  }
  if (const auto free = check_folder(folder, plan.value()); !free) {
    return fail("sweep", free.error().message);
  }
  std::error_code failed;
  fs::create_directories(folder, failed);
  if (failed) {
    return fail("sweep", fmt::format("cannot make the folder {}: {}; name another with --output",
                                     folder.string(), failed.message()));
  }
  if (!is_of_folder) {
    auto written = write_grid(folder, grid.value());
    if (written) written = write_start_record(folder);
    if (!written) return fail("sweep", written.error().message);
  }
  if (!options.json && !options.task) print_plan(options, plan.value(), folder);
  SweepSession session(options, std::move(plan.value()), folder);
  if (const auto ran = run(session, options); !ran) {
    if (stop_signal() == 0) return fail("sweep", ran.error().message);
    if (ran.error().code != ErrorCode::kClosed) {
      fail("sweep", ran.error().message);
      return 128 + stop_signal();
    }
    fail("sweep", options.on_slurm
                      ? "interrupted; the runs in Slurm's queue continue, and the same "
                        "command waits for them"
                      : "interrupted; the same command continues where it stopped");
    return 128 + stop_signal();
  }
  if (options.task) return session.failed() == 0 ? kFine : kFailed;
  if (const auto written = session.write_report(); !written) {
    return fail("sweep", written.error().message);
  }
  if (session.failed() == 0) return kFine;
  return fail("sweep", fmt::format("{} {}; the report names each with its reason",
                                   counted(static_cast<std::int64_t>(session.failed()), "run"),
                                   options.report_only ? "missing" : "failed"));
}

}  // namespace taut::cli
