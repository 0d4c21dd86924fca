#include "cli/commands/training/lab_schedule.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "cli/views/draw.hpp"
#include "cli/views/terminal.hpp"
#include "common/files/file.hpp"
#include "lab/schedule/fair_share.hpp"
#include "lab/schedule/policy_list.hpp"
#include "lab/schedule/report/completion_chart.hpp"
#include "lab/schedule/report/figures.hpp"
#include "lab/schedule/trace.hpp"
#include "lab/schedule/traces/host_list.hpp"
#include "lab/schedule/traces/planned_models.hpp"
#include "lab/schedule/workload.hpp"

namespace taut::cli {
namespace {

using schedule::Figures;

constexpr const char* kHosts = "16x4";

struct ScheduleArguments {
  std::string trace;
  std::string poisson;
  std::uint32_t jobs = 0;
  std::optional<double> load;         // of --poisson
  std::optional<std::uint64_t> seed;  // of --poisson
  std::vector<std::string> policies;
  std::string hosts;  // empty: kHosts
  std::string nodes;  // a file, instead of `hosts`
  std::uint32_t rack_hosts = 0;
  std::vector<double> gbps;
  std::vector<std::string> throughputs;  // files of `lab plan`
  std::string lend;
  double restart_s = 30;
  std::string csv;
  std::string svg;
};

std::string hosts_of(const ScheduleArguments& arguments) {
  return arguments.hosts.empty() ? kHosts : arguments.hosts;
}

Result<schedule::Trace> jobs_of(const ScheduleArguments& arguments,
                                const schedule::Cluster& cluster) {
  if (!arguments.poisson.empty()) {
    constexpr std::uint32_t kJobs = 1000;
    constexpr double kLoad = 0.8;
    return schedule::make_workload({.distribution = arguments.poisson,
                                    .jobs = arguments.jobs == 0 ? kJobs : arguments.jobs,
                                    .load = arguments.load.value_or(kLoad),
                                    .devices = cluster.own_devices(),
                                    .max_workers = cluster.own_devices(),
                                    .seed = arguments.seed.value_or(1)});
  }
  TAUT_TRY(schedule::Trace trace, schedule::read_trace(arguments.trace));
  if (arguments.jobs > 0 && arguments.jobs < trace.jobs.size()) trace.jobs.resize(arguments.jobs);
  for (schedule::Job& job : trace.jobs) {
    if (job.workers > cluster.own_devices()) {
      return invalid(
          fmt::format("{}: job {} asks for {} devices, and {} has {}; give more hosts",
                      arguments.trace, job.name, job.workers,
                      arguments.nodes.empty() ? "--hosts " + hosts_of(arguments) : arguments.nodes,
                      cluster.own_devices()));
    }
    job.max_workers = std::min(job.max_workers, cluster.own_devices());
  }
  return trace;
}

/// Three bandwidths, by tier; nullopt if the text is something else.
std::optional<std::vector<double>> parse_gbps(const std::string& text) {
  std::vector<double> values;
  for (std::size_t from = 0; from <= text.size();) {
    const std::size_t comma = std::min(text.find(',', from), text.size());
    const std::string part = text.substr(from, comma - from);
    if (!command_line::check_number(part, {.min = 0, .excludes_limits = true}).empty()) return {};
    values.push_back(std::stod(part));
    from = comma + 1;
  }
  return values.size() == schedule::kTiers ? std::optional(values) : std::nullopt;
}

/// "3.2 h": with the unit that gives one or two digits before the point.
std::string span_text(double seconds) {
  if (seconds < 120) return fmt::format("{:.1f} s", seconds);
  if (seconds < 7200) return fmt::format("{:.1f} min", seconds / 60);
  if (seconds < 48 * 3600) return fmt::format("{:.2f} h", seconds / 3600);
  return fmt::format("{:.2f} d", seconds / 86400);
}

std::vector<std::string> table_of(const std::vector<Figures>& figures) {
  std::vector<Row> rows = {{"policy", "mean", "p50", "p95", "p99", "makespan", "fair mean",
                            "fair p95", "fair max", "used %", "idle+queue %", "MWh", "restarts/job",
                            "ms/decision", "max ms"}};
  for (const Figures& one : figures) {
    rows.push_back(
        {one.policy, span_text(one.mean_s), span_text(one.p50_s), span_text(one.p95_s),
         span_text(one.p99_s), span_text(one.makespan_s), fmt::format("{:.2f}", one.fairness_mean),
         fmt::format("{:.2f}", one.fairness_p95), fmt::format("{:.2f}", one.fairness_max),
         fmt::format("{:.1f}", 100 * one.utilization),
         fmt::format("{:.1f}", 100 * one.fragmentation),
         fmt::format("{:.3f}", one.energy_kwh / 1000), fmt::format("{:.2f}", one.restarts),
         fmt::format("{:.3f}", one.decide_ms), fmt::format("{:.1f}", one.decide_max_ms)});
  }
  std::vector<bool> right(rows.front().size(), true);
  right.front() = false;
  return aligned(rows, right);
}

std::vector<std::string> chosen_policies(const ScheduleArguments& arguments) {
  if (!arguments.policies.empty()) return arguments.policies;
  std::vector<std::string> all;
  for (const schedule::PolicyEntry& entry : schedule::policies()) all.emplace_back(entry.name);
  return all;
}

Result<void> run_schedule(const ScheduleArguments& arguments) {
  if (arguments.trace.empty() == arguments.poisson.empty()) {
    throw UsageError("give either --trace or --poisson");
  }
  if (!arguments.hosts.empty() && !arguments.nodes.empty()) {
    throw UsageError("give either --hosts or --nodes");
  }
  if (arguments.poisson.empty() && (arguments.load || arguments.seed)) {
    throw UsageError(
        fmt::format("{} is for --poisson: the jobs of --trace are as they are; omit it",
                    arguments.load ? "--load" : "--seed"));
  }
  TAUT_TRY(schedule::Cluster cluster,
           arguments.nodes.empty()
               ? schedule::parse_cluster(hosts_of(arguments), arguments.rack_hosts)
               : schedule::read_nodes(arguments.nodes, arguments.rack_hosts));
  std::ranges::copy(arguments.gbps, cluster.gbps.begin());
  TAUT_TRY(schedule::Trace trace, jobs_of(arguments, cluster));
  if (!arguments.lend.empty()) {
    // Longer than any policy should need.
    constexpr double kYear = 365 * 86400.0;
    TAUT_TRY(schedule::lend_by_night(cluster, arguments.lend, arguments.rack_hosts,
                                     2 * trace.jobs.back().submit_s + kYear));
  }
  TAUT_TRY(const auto planned, schedule::read_planned_models(arguments.throughputs, cluster));
  schedule::plan_jobs(trace.jobs, planned, cluster);
  const std::vector<double> fair_s = schedule::fair_share_s(trace.jobs, cluster.own_devices());
  fmt::print("{}: {} over {}, on {} hosts with {} devices{}{}\n",
             arguments.trace.empty() ? "poisson " + trace.format : arguments.trace,
             counted(static_cast<std::int64_t>(trace.jobs.size()), "job"),
             span_text(trace.jobs.back().submit_s), cluster.hosts.size(), cluster.devices(),
             arguments.lend.empty() ? "" : ", with those on loan",
             trace.left_out == 0
                 ? ""
                 : fmt::format("; {} left out, without a device or never run", trace.left_out));
  std::vector<Figures> figures;
  std::vector<schedule::CompletionCurve> curves;
  LiveBlock block;
  for (const std::string& name : chosen_policies(arguments)) {
    const auto policy = schedule::make_policy(name);
    const auto began = std::chrono::steady_clock::now();
    schedule::SimulationOptions options{.restart_s = arguments.restart_s};
    if (on_terminal()) {
      options.progress = [&](std::size_t ended) {
        block.show({fmt::format("{}: {} of {} jobs have ended", name,
                                grouped(static_cast<std::int64_t>(ended)),
                                grouped(static_cast<std::int64_t>(trace.jobs.size())))});
      };
    }
    auto result = schedule::Simulator(trace.jobs, cluster, *policy, options).run();
    if (!result) {
      return make_error(result.error().code, fmt::format("{}: {}", name, result.error().message));
    }
    const std::chrono::duration<double> took = std::chrono::steady_clock::now() - began;
    figures.push_back(schedule::figures_of(name, trace.jobs, fair_s, result.value()));
    curves.push_back(schedule::completion_curve(name, trace.jobs, result.value().jobs));
    block.print_above(
        {fmt::format("{}: {} decisions in {:.2f} s", name,
                     grouped(static_cast<std::int64_t>(figures.back().decisions)), took.count())});
  }
  block.leave();
  fmt::print("\n");
  print_lines(table_of(figures));
  if (!arguments.csv.empty()) {
    TAUT_TRY(write_file_atomically(arguments.csv, schedule::figures_csv(figures)));
  }
  if (!arguments.svg.empty()) {
    TAUT_TRY(write_file_atomically(arguments.svg, schedule::completion_svg(curves)));
  }
  return ok();
}

void add_jobs(Command& command, ScheduleArguments& arguments) {
  constexpr std::uint32_t kMaxJobs = 10000000;
  command
      .text("--trace", arguments.trace,
            "Jobs of a trace of Tiresias, Muri, Philly or Alibaba 2023, plain or gzip; its first "
            "line says which")
      .value("FILE");
  command.one_of("--poisson", arguments.poisson,
                 "Jobs that arrive at random instead, from a published distribution",
                 schedule::workload_names());
  command.whole_number(
      "--jobs", arguments.jobs,
      "Number of jobs; of a trace the first ones (default: all; 1000 with --poisson)", 1, kMaxJobs);
  command
      .number("--load", arguments.load, "The load that --poisson offers, as a part of all devices",
              "PART", {.min = 0, .max = 10, .excludes_limits = true})
      .by_default("0.8");
  command.whole_number("--seed", arguments.seed, "Seed of --poisson").by_default("1");
}

void add_cluster(Command& command, ScheduleArguments& arguments) {
  command
      .text("--hosts", arguments.hosts,
            "Hosts x devices of each, and the devices' type V100, P100, K80 or T4, e.g. "
            "8x4:V100,8x4:K80")
      .value("HOSTSxDEVICES[:TYPE]")
      .by_default(kHosts);
  command
      .text(
          "--nodes", arguments.nodes,
          "The hosts of Alibaba's cluster of 2023 in their file instead of --hosts, plain or gzip")
      .value("FILE");
  command
      .text("--lend", arguments.lend,
            "Additional hosts that another cluster lends at night, for policies that use them")
      .value("HOSTSxDEVICES[:TYPE]");
  command.whole_number("--rack-hosts", arguments.rack_hosts,
                       "Hosts of a rack (default: all are in one)", 1, 100000);
  command
      .text(
          "--gbps",
          [&arguments](const std::string& text) { arguments.gbps = parse_gbps(text).value(); },
          "Gigabits a second between two devices of a host, two hosts of a rack, and two racks")
      .value("HOST,RACK,CLUSTER")
      .by_default("96,25,10")
      .check([](const std::string& text) {
        return parse_gbps(text) ? "" : "must be three numbers greater than 0, e.g. 96,25,10";
      });
  command
      .texts(
          "--throughput", arguments.throughputs,
          "Files of tautline lab plan --throughput: their nets' speed on these types of devices, "
          "for jobs that name one of the nets, or none")
      .value("FILES")
      .separated_by_commas();
  command
      .number("--restart", arguments.restart_s,
              "What a job that was stopped loses when it starts elsewhere", "SECONDS",
              {.min = 0, .max = 86400})
      .by_default("30");
}

}  // namespace

void add_lab_schedule(Command& lab, int& status) {
  std::vector<std::string> names;
  for (const schedule::PolicyEntry& entry : schedule::policies()) names.emplace_back(entry.name);
  const auto arguments = std::make_shared<ScheduleArguments>();
  Command command =
      lab.command("schedule", "Runs a trace of jobs through scheduling policies and compares them",
                  "Example: tautline lab schedule --trace jobs.csv --policy fifo,tiresias");
  add_jobs(command, *arguments);
  add_cluster(command, *arguments);
  command
      .texts("--policy", arguments->policies,
             fmt::format("Policies, of {} (default: all)", fmt::join(names, ", ")))
      .value("NAMES")
      .separated_by_commas()
      .check([names](const std::string& text) { return command_line::check_word(text, names); });
  command.text("--csv", arguments->csv, "Also writes the table there").value("FILE");
  command.text("--svg", arguments->svg, "Also draws the distributions of completion times there")
      .value("FILE");
  command.on_run([arguments, &status] {
    if (const auto done = run_schedule(*arguments); !done) {
      status = fail("lab schedule", done.error().message);
    }
  });
}

}  // namespace taut::cli
