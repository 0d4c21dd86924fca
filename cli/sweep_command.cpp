#include <fmt/format.h>

#include <filesystem>
#include <memory>
#include <optional>
#include <sstream>
#include <string>
#include <vector>

#include "cli/command.hpp"
#include "cli/sweep/sweep.hpp"
#include "proto/experiment_check.hpp"
#include "worker/model/file_kind.hpp"

namespace taut::cli {
namespace {

namespace fs = std::filesystem;

/// The options as they stand on the command line; each is put over what the sweep file says.
struct SweepArguments {
  std::string file;
  std::string slack;
  std::string policies;
  std::string workers;
  std::optional<std::uint32_t> seeds;
  std::vector<std::string> stragglers;
  std::optional<double> clock_time_ms;
  std::optional<std::int32_t> max_iter;
  std::optional<double> target;
  std::optional<double> limit_s;
  std::string data;
  std::string output;
  bool report_only = false;
};

std::vector<std::string> parts_of(const std::string& text) {
  std::vector<std::string> parts;
  std::istringstream stream(text);
  for (std::string part; std::getline(stream, part, ',');) parts.push_back(part);
  return parts;
}

Result<void> put_axes_over(const SweepArguments& arguments, pb::Sweep& sweep) {
  if (!arguments.slack.empty()) sweep.clear_slack();
  for (const std::string& part : parts_of(arguments.slack)) sweep.add_slack(part);
  if (!arguments.policies.empty()) sweep.clear_policy();
  for (const std::string& file : parts_of(arguments.policies)) {
    TAUT_TRY(*sweep.add_policy(), load_policy(file));
  }
  if (!arguments.workers.empty()) sweep.clear_workers();
  for (const std::string& part : parts_of(arguments.workers)) {
    if (part.empty() || part.size() > 6 ||
        part.find_first_not_of("0123456789") != std::string::npos) {
      return invalid(fmt::format("--workers \"{}\" is no number; write e.g. --workers 2,4", part));
    }
    sweep.add_workers(static_cast<std::uint32_t>(std::stoul(part)));
  }
  if (arguments.seeds) sweep.set_seeds(*arguments.seeds);
  if (arguments.target) sweep.set_target_accuracy(*arguments.target);
  if (arguments.limit_s) sweep.set_limit_s(*arguments.limit_s);
  pb::Job& over = *sweep.mutable_over();
  for (const std::string& text : arguments.stragglers) {
    TAUT_TRY(*over.add_straggler(), parse_straggler(text, "--straggler"));
  }
  if (arguments.clock_time_ms) over.set_clock_time_ms(*arguments.clock_time_ms);
  if (arguments.max_iter) over.mutable_solver_param()->set_max_iter(*arguments.max_iter);
  return ok();
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
  TAUT_TRY(put_axes_over(arguments, options.sweep));
  return options;
}

}  // namespace

void add_sweep(CLI::App& app, int& status) {
  auto arguments = std::make_shared<SweepArguments>();
  CLI::App* command = app.add_subcommand(
      "sweep", "Trains a job with several staleness bounds and seeds, and compares them");
  command->add_option("FILE", arguments->file,
                      "Sweep file, or job or solver file (default: LeNet on Fashion-MNIST)");
  command->add_option("--slack", arguments->slack,
                      "Bounds, ',' between them; 0 is bsp (default: 0,1,2,4,8,async)");
  command->add_option("--policy", arguments->policies,
                      "Staleness policies beside the bounds: job files, ',' between them, of which "
                      "the consistency is taken; alone where no --slack is given");
  command->add_option("--workers", arguments->workers, "Numbers of workers, ',' between them");
  command->add_option("--seeds", arguments->seeds, "Repeats of each point (default: 3)");
  command
      ->add_option("--straggler", arguments->stragglers,
                   "Slows workers down, e.g. \"worker: 3 slowdown: 3\"; may be given several "
                   "times")
      ->type_name("TEXT");
  command
      ->add_option("--clock-time", arguments->clock_time_ms,
                   "Makes every clock of a worker at least so long")
      ->type_name("MS");
  command->add_option("--max-iter", arguments->max_iter, "Iterations of each worker")
      ->check(CLI::PositiveNumber);
  command->add_option("--target", arguments->target,
                      "Test accuracy whose time is compared (default: the highest that every run "
                      "reached)");
  command
      ->add_option("--limit", arguments->limit_s,
                   "A run that takes longer is ended as failed (default: 3600)")
      ->type_name("SECONDS");
  command->add_option("--data", arguments->data, "Folder of the data set")->type_name("DIR");
  command
      ->add_option("--output", arguments->output,
                   "The sweep's folder; one that was interrupted goes on there (default: "
                   "runs/NAME)")
      ->type_name("DIR");
  command->add_flag("--report-only", arguments->report_only,
                    "Writes the report from the runs that are there");
  command->footer(
      "Example: tautline sweep --slack 0,1,4,async --workers 4 --seeds 3 --max-iter 500");
  command->callback([arguments, &status] {
    const auto options = settle(*arguments);
    status = options ? run_sweep(options.value()) : fail("sweep", options.error().message);
  });
}

}  // namespace taut::cli
