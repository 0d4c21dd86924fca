#include "cli/sweep/sweep_session.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cstdio>
#include <optional>
#include <thread>
#include <utility>

#include "cli/install_paths.hpp"
#include "cli/sweep/report/report.hpp"
#include "cli/sweep/report/report_json.hpp"
#include "cli/sweep/sweep_setting.hpp"
#include "cli/views/draw.hpp"
#include "common/files/file.hpp"
#include "common/system/stop_signal.hpp"

namespace taut::cli {
namespace {

namespace fs = std::filesystem;

constexpr auto kBetweenLooks = std::chrono::milliseconds(100);
constexpr Duration kGrace{6'000'000};

Company company_of(const SweepOptions& options, const SweepPlan& plan) {
  const pb::Sweep& sweep = options.sweep;
  Company company;
  company.cores = std::max(1U, std::thread::hardware_concurrency());
  const auto runs = static_cast<std::uint32_t>(plan.runs.size());
  // A Slurm task has its own processors.
  const bool is_on_slurm = options.on_slurm || options.task;
  company.runs = is_on_slurm ? 1 : std::min({sweep.parallel(), company.cores, runs});
  for (const SweepPoint& point : plan.points) {
    // A run in the lab is one process.
    const std::uint32_t computing = plan.is_in_lab ? 1 : point.workers;
    company.threads = std::max(company.threads, computing * sweep.threads());
  }
  return company;
}

/// "2, each with a core for every compute thread", or that they share cores.
std::string company_text(const Company& company) {
  if (!company.shares_cores()) {
    return fmt::format("up to {}, each with a core for every compute thread", company.runs);
  }
  return fmt::format("up to {}, of {} each on {}: times of runs side by side are not comparable",
                     company.runs, counted(company.threads, "compute thread"),
                     counted(company.cores, "core"));
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

std::string solver_text(const pb::Sweep& sweep, const pb::Job& job) {
  const bool is_varied = std::ranges::any_of(
      sweep.vary(), [](const pb::SweepVary& vary) { return vary.field().starts_with("solver"); });
  if (is_varied) return "varied: below, and in each run's job.textproto";
  const pb::SolverParameter& solver = job.solver_param();
  return fmt::format("{}, base_lr {:g} ({}), {} iterations of each worker", solver.type(),
                     solver.base_lr(), solver.lr_policy(), solver.max_iter());
}

std::vector<std::pair<std::string, std::string>> setting_of(const SweepOptions& options,
                                                            const SweepPlan& plan,
                                                            const Company& company) {
  const pb::Job& job = plan.points.front().job;
  std::vector<std::pair<std::string, std::string>> setting{
      {"job", job.name()},
      {"solver", solver_text(options.sweep, job)},
      {"servers",
       fmt::format("{}, shards of each: {}", options.sweep.servers(), options.sweep.shards())},
      {"runs", fmt::format("{}: {}, {} each", plan.runs.size(),
                           counted(static_cast<std::int64_t>(plan.points.size()), "point"),
                           counted(options.sweep.seeds(), "seed"))}};
  for (const std::string& file : options.sweep.cluster()) {
    setting.emplace_back("cluster", file + ", in the lab's virtual time");
  }
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
  if (options.sweep.has_draws()) {
    setting.emplace_back("settings", fmt::format("{} drawn at random, seed {}",
                                                 options.sweep.draws(), options.sweep.draw_seed()));
  }
  for (const pb::SweepVary& vary : options.sweep.vary()) {
    pb::SweepVary values = vary;
    values.clear_field();
    setting.emplace_back(vary.field(), values.ShortDebugString());
  }
  if (company.runs > 1) setting.emplace_back("runs at once", company_text(company));
  for (auto& line : describe_host()) setting.push_back(std::move(line));
  return setting;
}

}  // namespace

SweepSession::SweepSession(const SweepOptions& options, SweepPlan plan, fs::path folder)
    : options_(options),
      plan_(std::move(plan)),
      folder_(std::move(folder)),
      company_(company_of(options, plan_)),
      table_(plan_, options.json) {}

Result<SweepSession::Active> SweepSession::start(std::size_t number) {
  const SweepRun& run = plan_.runs[number];
  const fs::path folder = folder_ / run.folder;
  TAUT_TRY(prepare_run(folder, run, company_));
  TAUT_TRY(const fs::path program, sibling_program("tautline"));
  const pb::Sweep& sweep = options_.sweep;
  const std::string job = (folder / "job.textproto").string();
  std::vector<std::string> arguments{"train", job, "--discard"};
  if (plan_.is_in_lab) {
    arguments = {"lab", job, "--cluster", (folder / "cluster.textproto").string()};
    if (sweep.memory_limit() > 0) {
      arguments.insert(arguments.end(), {"--memory-limit", std::to_string(sweep.memory_limit())});
    }
  }
  arguments.insert(
      arguments.end(),
      {"--output", folder.string(), "--servers", std::to_string(sweep.servers()), "--shards",
       std::to_string(sweep.shards()), "--threads", std::to_string(sweep.threads())});
  TAUT_TRY(auto child, ChildProcess::start({.name = run.folder,
                                            .program = program,
                                            .arguments = std::move(arguments),
                                            .log = folder / "train.log"}));
  Active active{number, {}, steady_now()};
  active.children.push_back(std::move(child));
  return active;
}

Result<void> SweepSession::start_runs() {
  while (next_ < plan_.runs.size() && active_.size() < company_.runs) {
    const std::size_t number = next_++;
    if (is_done(folder_ / plan_.runs[number].folder, plan_.runs[number])) {
      finish(number, {}, 0);
    } else if (options_.report_only) {
      finish(number, kNotRun, 0);
    } else {
      TAUT_TRY(Active active, start(number));
      active_.push_back(std::move(active));
    }
  }
  return ok();
}

/// Why a run that has ended failed; empty if it did not.
std::string SweepSession::failure_of(const Active& active) {
  const SweepRun& run = plan_.runs[active.number];
  const ChildProcess& child = active.children[0];
  if (child.ended_well() && is_done(folder_ / run.folder, run)) return {};
  const std::string reason = failure_in(folder_ / run.folder / "train.log");
  return child.ended_well() ? reason : fmt::format("{} ({})", reason, child.ending());
}

void SweepSession::finish(std::size_t number, const std::string& failure, double took_s) {
  const SweepRun& run = plan_.runs[number];
  SweepOutcome outcome{run, std::nullopt, failure};
  if (failure.empty()) {
    if (auto result = read_run(folder_ / run.folder, plan_.metric)) {
      outcome.result = std::move(result.value());
    } else {
      outcome.failure = result.error().message;
    }
  }
  table_.show_finished(outcome, took_s);
  outcomes_.emplace(number, std::move(outcome));
}

void SweepSession::look_after(std::vector<Active>& active) {
  std::vector<RunningRun> shown;
  for (const Active& one : active) {
    const SweepRun& run = plan_.runs[one.number];
    shown.push_back({&run, seconds(steady_now() - one.began), folder_ / run.folder / "train.log"});
  }
  table_.show_running(shown);
  std::erase_if(active, [&](Active& one) {
    const double took = seconds(steady_now() - one.began);
    if (!one.children[0].running()) {
      finish(one.number, failure_of(one), took);
      return true;
    }
    const double limit = options_.sweep.limit_s();
    if (took <= limit) return false;
    end_all(one.children, kGrace);
    finish(one.number, fmt::format("took longer than limit_s, {:g} s", limit), took);
    return true;
  });
}

Result<void> SweepSession::run_all() {
  TAUT_TRY(start_runs());
  while (!active_.empty()) {
    std::this_thread::sleep_for(kBetweenLooks);
    look_after(active_);
    if (stop_signal() != 0) {
      std::vector<ChildProcess> children;
      for (Active& one : active_) children.push_back(std::move(one.children[0]));
      end_all(children, kGrace);
      return make_error(ErrorCode::kClosed, "interrupted");
    }
    TAUT_TRY(start_runs());
  }
  return ok();
}

std::size_t SweepSession::failed() const {
  return static_cast<std::size_t>(std::ranges::count_if(
      outcomes_, [](const auto& numbered) { return !numbered.second.result; }));
}

Result<void> SweepSession::write_report() {
  std::optional<double> given;
  if (options_.sweep.has_target_accuracy()) given = options_.sweep.target_accuracy();
  if (options_.sweep.has_target()) given = options_.sweep.target();
  SweepReport report;
  report.name = options_.sweep.name();
  report.fields = plan_.fields;
  report.is_in_lab = plan_.is_in_lab;
  Company company;
  for (const auto& [number, outcome] : outcomes_) {
    report.outcomes.push_back(outcome);
    if (outcome.result && outcome.result->company.runs > company.runs) {
      company = outcome.result->company;
    }
  }
  report.target = target_of(plan_.metric, given, report.outcomes);
  report.target.is_late = report.target.is_fixed && options_.target_is_late;
  report.target.is_fixed = report.target.is_fixed && !report.target.is_late;
  report.points = figures_of(plan_, report.outcomes, report.target);
  report.setting = setting_of(options_, plan_, company);
  if (const auto jobs = slurm_jobs_of(folder_); !jobs.empty()) {
    report.setting.emplace_back("engine",
                                fmt::format("Slurm, array job {}", fmt::join(jobs, ", ")));
  }
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

}  // namespace taut::cli
