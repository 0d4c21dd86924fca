#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <limits>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "cli/commands/job_arguments.hpp"
#include "cli/commands/shared_options.hpp"
#include "cli/sweep/sweep.hpp"
#include "cli/sweep/sweep_plan.hpp"
#include "cli/sweep/vary.hpp"
#include "proto/config/text.hpp"
#include "worker/model/job/file_kind.hpp"

namespace taut::cli {
namespace {

namespace fs = std::filesystem;

/// The command-line options; each overrides the sweep file's.
struct SweepArguments {
  std::string file;
  std::string name;
  std::string over;
  std::vector<std::string> slack;
  std::vector<std::string> policies;
  std::vector<std::string> workers;
  std::vector<pb::SweepVary> vary;
  std::optional<std::uint32_t> draws;
  std::optional<std::uint64_t> draw_seed;
  std::optional<std::uint32_t> parallel;
  std::optional<std::uint32_t> seeds;
  std::vector<pb::Straggler> stragglers;
  std::optional<double> clock_time_ms;
  std::optional<std::int32_t> max_iter;
  std::string metric;
  std::optional<double> target;
  std::optional<double> limit_s;
  std::uint64_t memory_limit = 0;  // bytes; 0: not given
  std::vector<std::string> clusters;
  std::string data;
  std::string output;
  std::string engine = "local";
  std::vector<std::string> sbatch;
  std::optional<std::size_t> task;
  bool report_only = false;
  bool json = false;
};

/// A field that the file varies gets the values of the command line.
void put_settings_over(const SweepArguments& arguments, pb::Sweep& sweep) {
  for (const pb::SweepVary& vary : arguments.vary) {
    const auto same = std::ranges::find(*sweep.mutable_vary(), vary.field(), &pb::SweepVary::field);
    if (same == sweep.mutable_vary()->end()) {
      *sweep.add_vary() = vary;
    } else {
      *same = vary;
    }
  }
  if (arguments.draws) sweep.set_draws(*arguments.draws);
  if (arguments.draw_seed) sweep.set_draw_seed(*arguments.draw_seed);
}

void put_axes_over(const SweepArguments& arguments, pb::Sweep& sweep) {
  if (!arguments.slack.empty()) sweep.clear_slack();
  for (const std::string& slack : arguments.slack) sweep.add_slack(slack);
  if (!arguments.workers.empty()) sweep.clear_workers();
  for (const std::string& workers : arguments.workers) {
    sweep.add_workers(static_cast<std::uint32_t>(std::stoul(workers)));
  }
  put_settings_over(arguments, sweep);
  if (arguments.parallel) sweep.set_parallel(*arguments.parallel);
  if (arguments.seeds) sweep.set_seeds(*arguments.seeds);
  if (!arguments.metric.empty()) sweep.set_metric(arguments.metric);
  if (arguments.target) {
    if (sweep.metric() == "accuracy" && !(*arguments.target > 0 && *arguments.target < 1)) {
      throw UsageError(
          fmt::format("--target: an accuracy must be greater than 0 and less than 1, is {:g}",
                      *arguments.target));
    }
    sweep.clear_target_accuracy();
    sweep.set_target(*arguments.target);
  }
  if (arguments.limit_s) sweep.set_limit_s(*arguments.limit_s);
  if (arguments.memory_limit > 0) sweep.set_memory_limit(arguments.memory_limit);
  if (!arguments.clusters.empty()) sweep.clear_cluster();
  for (const std::string& file : arguments.clusters) {
    sweep.add_cluster(fs::absolute(file).string());
  }
  pb::Job& over = *sweep.mutable_over();
  for (const pb::Straggler& straggler : arguments.stragglers) *over.add_straggler() = straggler;
  if (arguments.clock_time_ms) over.set_clock_time_ms(*arguments.clock_time_ms);
  if (arguments.max_iter) over.mutable_solver_param()->set_max_iter(*arguments.max_iter);
}

/// Fields of a job as text.
Result<pb::Job> fields_of(const std::string& text, const std::string& option) {
  pb::Job fields;
  TAUT_TRY(parse_text(text, option, fields));
  return fields;
}

Result<SweepOptions> settle(const SweepArguments& arguments) {
  SweepOptions options;
  options.sweep.set_name("sweep");
  if (!arguments.file.empty()) {
    TAUT_TRY(const model::FileKind kind, model::file_kind(fs::path(arguments.file)));
    if (kind == model::FileKind::kSweep) {
      TAUT_TRY(options, load_sweep(arguments.file));
    } else {
      options.job_file = arguments.file;
      options.sweep.set_name(fs::path(arguments.file).stem().string() + "-sweep");
    }
  }
  options.data = arguments.data;
  options.output = arguments.output;
  options.report_only = arguments.report_only;
  options.json = arguments.json;
  options.on_slurm = arguments.engine == "slurm";
  options.sbatch = arguments.sbatch;
  options.task = arguments.task;
  if (!arguments.policies.empty()) options.sweep.clear_policy();
  for (const std::string& file : arguments.policies) {
    TAUT_TRY(*options.sweep.add_policy(), load_policy(file));
  }
  if (!arguments.name.empty()) options.sweep.set_name(arguments.name);
  options.from_files = options.sweep;
  TAUT_TRY(const pb::Job over, fields_of(arguments.over, "--over"));
  put_fields_over(over, *options.sweep.mutable_over());
  put_axes_over(arguments, options.sweep);
  return options;
}

void add_settings(Command& command, SweepArguments& arguments) {
  constexpr std::uint64_t kMaxDraws = 1000;
  const auto set = [&arguments](const std::vector<std::string>& texts) {
    for (const std::string& text : texts) {
      auto vary = parse_vary(text, "--vary");
      if (vary) arguments.vary.push_back(std::move(vary.value()));
    }
  };
  command
      .texts(
          "--vary", set,
          "A field of the job and its values, e.g. solver.base_lr=0.01,0.1, or as a sweep file "
          "has it: \"field: 'solver.base_lr' range { low: 0.001 high: 0.1 logarithmic: true }\"; "
          "may be given several times. Without --slack, the job's own bound is used")
      .value("FIELD=VALUES")
      .check([](const std::string& text) {
        const auto vary = parse_vary(text, "FIELD=VALUES");
        return vary ? std::string() : vary.error().message;
      });
  command.whole_number("--draws", arguments.draws,
                       "Combinations of the varied values that are drawn at random (default: every "
                       "combination)",
                       1, kMaxDraws);
  command.whole_number("--draw-seed", arguments.draw_seed, "Seed of --draws (default: 1)");
  command.whole_number("--parallel", arguments.parallel,
                       "Runs at the same time; on this machine at most as many as it has cores, "
                       "and where they share "
                       "cores, their times are not compared (default: 1)",
                       1, kMaxProcesses);
}

void add_axes(Command& command, SweepArguments& arguments) {
  constexpr std::uint64_t kMaxSeeds = 1000;
  // The limit for real processes is checked once it is known that the sweep is not in the lab.
  constexpr std::uint64_t kMaxLabWorkers = 100'000;
  command
      .texts("--slack", arguments.slack,
             "Bounds with ',' between them: 0 is bsp, async is no bound (default: "
             "0,1,2,4,8,async)")
      .separated_by_commas()
      .value("SLACK")
      .check(check_slack);
  command
      .texts("--policy", arguments.policies,
             "Staleness policies in addition to the bounds: job files with ',' between them, whose "
             "consistency is used; without --slack, in place of the bounds")
      .separated_by_commas()
      .value("FILE");
  command
      .texts("--workers", arguments.workers,
             "Numbers of workers with ',' between them, each 1 to 256, in the lab 1 to 100000 "
             "(default: the job's)")
      .separated_by_commas()
      .value("N")
      .check([](const std::string& text) {
        return command_line::check_whole_number(text, 1, kMaxLabWorkers);
      });
  add_settings(command, arguments);
  command.whole_number("--seeds", arguments.seeds, "Repeats of each point (default: 3)", 1,
                       kMaxSeeds);
}

/// Options of every run of the sweep.
void add_run_options(Command& command, const std::shared_ptr<SweepArguments>& arguments) {
  command
      .text("--over", arguments->over,
            "Fields that replace the job's in every run, and those of a sweep file's over, as in "
            "a job's file: \"solver_param { max_iter: 200 }\"")
      .value("FIELDS")
      .check([](const std::string& text) {
        const auto fields = fields_of(text, "FIELDS");
        return fields ? std::string() : fields.error().message;
      });
  command
      .text("--name", arguments->name,
            "The sweep's name, and its folder's in runs/ (default: the sweep file's, or the "
            "job's with -sweep)")
      .value("NAME");
  straggler_option(command, arguments->stragglers);
  command.number("--clock-time", arguments->clock_time_ms,
                 "For experiments: the shortest time of a worker's clock", "MS", {});
  command.whole_number("--max-iter", arguments->max_iter, "Iterations of each worker", 1);
  command.text("--data", arguments->data, "Folder of the data set").value("DIR");
}

/// Options for the comparison of the runs.
void add_comparison(Command& command, const std::shared_ptr<SweepArguments>& arguments) {
  command
      .text("--metric", arguments->metric,
            "What tests are compared by: accuracy, loss, perplexity, or an output of the test net "
            "(default: accuracy)")
      .value("NAME");
  command.number("--target", arguments->target,
                 "The metric's value whose time is compared (default: the best that every run "
                 "reached)",
                 "NUMBER", {.min = -std::numeric_limits<double>::infinity()});
}

/// Options for where the runs are computed, and where their results go.
void add_places(Command& command, const std::shared_ptr<SweepArguments>& arguments) {
  command.number("--limit", arguments->limit_s,
                 "A run that takes longer is ended as failed (default: 3600)", "SECONDS",
                 {.excludes_limits = true});
  command
      .texts("--lab", arguments->clusters,
             "Runs in the lab's virtual time, on the cluster of this file, instead of processes; "
             "several files with ',' between them are a further axis")
      .separated_by_commas()
      .value("FILE");
  command.byte_size("--memory-limit", arguments->memory_limit,
                    "With --lab: a run fails if it would take more memory, e.g. 4GiB (default: no "
                    "limit)");
  command
      .text("--output", arguments->output,
            "The sweep's folder; an interrupted sweep continues there (default: runs/NAME)")
      .value("DIR");
  command
      .one_of("--engine", arguments->engine,
              "What starts the runs: this machine, or Slurm, as tasks of an array job of which "
              "--parallel run at once, each on one node that sees the folders",
              {"local", "slurm"})
      .by_default(arguments->engine);
  command
      .texts("--sbatch", arguments->sbatch,
             "With --engine slurm: a further option of sbatch, e.g. --sbatch=--partition=gpu; may "
             "be given several times")
      .value("OPTION");
  command
      .whole_number("--task", arguments->task, "One run of the folder's sweep, by its number", 0,
                    1000000)
      .hidden();
}

}  // namespace

void add_sweep(Command& command, int& status) {
  auto arguments = std::make_shared<SweepArguments>();
  command
      .text("FILE", arguments->file,
            "Sweep file, or job or solver file (default: LeNet on Fashion-MNIST)")
      .value("FILE");
  add_axes(command, *arguments);
  add_run_options(command, arguments);
  add_comparison(command, arguments);
  add_places(command, arguments);
  command.flag("--report-only", arguments->report_only,
               "Writes the report of the folder's own sweep from the runs that are finished, and "
               "starts none");
  command.flag("--json", arguments->json,
               "Prints the figures as one JSON object on a line, and no progress");
  command.on_run([arguments, &status] {
    if (!arguments->sbatch.empty() && arguments->engine != "slurm") {
      throw UsageError("--sbatch: is for --engine slurm");
    }
    const auto options = settle(*arguments);
    status = options ? run_sweep(options.value()) : fail("sweep", options.error().message);
  });
}

}  // namespace taut::cli
