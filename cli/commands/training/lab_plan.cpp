#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "cli/commands/job_arguments.hpp"
#include "cli/commands/training/lab.hpp"
#include "cli/commands/training/lab_target.hpp"
#include "cli/commands/training/lab_throughput.hpp"
#include "cli/job_options.hpp"
#include "cli/views/draw.hpp"
#include "common/log.hpp"
#include "common/system/stop_signal.hpp"
#include "lab/training/costs/cluster_misfit.hpp"
#include "lab/training/costs/learning_target.hpp"
#include "lab/training/costs/scaling.hpp"
#include "proto/config/lab/lab_cluster.hpp"

namespace taut::cli {
namespace {

constexpr std::uint64_t kMaxWorkers = 100'000;

struct PlanOptions {
  TrainOptions train;
  std::string cluster;
  std::string workers = "1..64";
  std::string slacks;  // empty: the job's
  std::optional<std::uint64_t> records;
  std::string throughput;               // file; empty: none is written
  std::vector<std::string> host_types;  // HOST=TYPE
  lab::LearningTarget target;
  std::uint64_t memory_limit = 0;  // bytes; 0: none
  bool checks = false;

  [[nodiscard]] bool has_target() const { return target.accuracy || target.loss; }
};

/// Calls `take` for each part of a comma-separated text.
template <class Take>
void each_part(const std::string& text, const Take& take) {
  for (std::size_t begin = 0; begin <= text.size();) {
    const std::size_t end = std::min(text.find(',', begin), text.size());
    take(text.substr(begin, end - begin));
    begin = end + 1;
  }
}

/// "1..256": 1, 2, 4 and so on, and the last; or comma-separated numbers. Throws UsageError.
std::vector<std::uint32_t> counts_of(const std::string& text) {
  const auto number = [](const std::string& word) {
    if (const std::string wrong = command_line::check_whole_number(word, 1, kMaxWorkers);
        !wrong.empty()) {
      throw UsageError(fmt::format("--workers: {}, e.g. 1..256 or 1,2,16", wrong));
    }
    return static_cast<std::uint32_t>(std::stoul(word));
  };
  std::vector<std::uint32_t> counts;
  const std::size_t dots = text.find("..");
  if (dots != std::string::npos) {
    const std::uint32_t first = number(text.substr(0, dots));
    const std::uint32_t last = number(text.substr(dots + 2));
    if (first > last) {
      throw UsageError(fmt::format("--workers: the first of {} is more than the last, e.g. 1..256",
                                   command_line::in_quotes(text)));
    }
    for (std::uint64_t count = first; count < last; count *= 2) {
      counts.push_back(static_cast<std::uint32_t>(count));
    }
    counts.push_back(last);
    return counts;
  }
  each_part(text, [&](const std::string& word) { counts.push_back(number(word)); });
  return counts;
}

/// "0,3,async". Throws UsageError.
std::vector<Slack> slacks_of(const std::string& text) {
  std::vector<Slack> slacks;
  if (text.empty()) return slacks;
  each_part(text, [&](const std::string& word) {
    const auto slack = parse_slack(word);
    if (!slack) {
      throw UsageError(fmt::format(
          "--slack: \"{}\" is neither a number of clocks nor async, e.g. 0,3,async", word));
    }
    slacks.push_back(*slack);
  });
  return slacks;
}

/// How long the records take, in hours, and what the hosts cost in that time.
struct Target {
  double hours = 0;
  double price = 0;
};

Target target_of(const lab::ScalingPoint& point, std::uint64_t records) {
  constexpr double kSecondsPerHour = 3600;
  const double hours = static_cast<double>(records) / point.records_per_s / kSecondsPerHour;
  return {hours, hours * point.price_per_hour};
}

/// Numbers with four digits, however small.
std::string short_number(double value) {
  return fmt::format("{:.4g}", value);
}

/// The workers and the slack with which the records are trained soonest, and most cheaply.
void print_best(const std::vector<lab::ScalingPoint>& points, std::uint64_t records) {
  const auto print_one = [&](const char* what, double Target::*by) {
    const auto& best = *std::ranges::min_element(
        points, {}, [&](const lab::ScalingPoint& point) { return target_of(point, records).*by; });
    const Target target = target_of(best, records);
    fmt::print("{}: {} workers, slack {}: {} hours, price {}\n", what, best.workers,
               best.slack.to_string(), short_number(target.hours), short_number(target.price));
  };
  print_one("soonest", &Target::hours);
  const bool is_priced = std::ranges::any_of(
      points, [](const lab::ScalingPoint& point) { return point.price_per_hour > 0; });
  if (is_priced) {
    print_one("cheapest", &Target::price);
  } else {
    fmt::print("no host of the cluster file has a price_per_hour, so none is cheapest\n");
  }
}

void print(const std::vector<lab::ScalingPoint>& points, std::optional<std::uint64_t> records) {
  constexpr double kMsPerS = 1e3;
  const auto ms = [](double value) { return fmt::format("{:.2f}", value); };
  const bool has_slacks = std::ranges::any_of(
      points, [&](const lab::ScalingPoint& point) { return point.slack != points[0].slack; });
  std::vector<Row> rows{{"workers", "clock ms", "compute", "spread", "network", "server", "exposed",
                         "iterations/s", "efficiency", "limit"}};
  if (has_slacks) rows.front().insert(rows.front().begin() + 1, "slack");
  if (records) rows.front().insert(rows.front().end(), {"hours", "price"});
  for (const lab::ScalingPoint& point : points) {
    const lab::ClosedEstimate& one = point.estimate;
    Row& row = rows.emplace_back(
        Row{std::to_string(point.workers), ms(one.clock_ms), ms(one.compute_ms), ms(one.spread_ms),
            ms(one.network_ms), ms(one.server_ms), ms(one.exposed_ms),
            fmt::format("{:.1f}", point.workers * kMsPerS / one.clock_ms),
            fmt::format("{:.2f}", one.compute_ms / one.clock_ms), one.limit});
    if (has_slacks) row.insert(row.begin() + 1, point.slack.to_string());
    if (records) {
      const Target target = target_of(point, *records);
      row.insert(row.end(), {short_number(target.hours), short_number(target.price)});
    }
    if (!point.lab_ms) continue;
    row.push_back(ms(*point.lab_ms));
    row.push_back(fmt::format("{:+.1f} %", 100 * (one.clock_ms / *point.lab_ms - 1)));
  }
  if (rows.back().size() > rows.front().size()) {
    rows.front().insert(rows.front().end(), {"in the lab", "error"});
  }
  const std::vector<bool> right(rows.front().size(), true);
  for (const std::string& line : aligned(rows, right)) fmt::print("{}\n", line);
  if (records) print_best(points, *records);
}

/// Throws UsageError.
void check_together(const PlanOptions& options, const std::vector<Slack>& slacks) {
  if (options.throughput.empty() && !options.host_types.empty()) {
    throw UsageError("--host-type is for --throughput; omit it, or add that");
  }
  if (!options.throughput.empty() && slacks.size() > 1) {
    throw UsageError("--throughput is that under one slack; give --slack one");
  }
  if (options.memory_limit > 0 && !options.checks && !options.has_target()) {
    throw UsageError("--memory-limit is for --check and targets; omit it, or add one of them");
  }
  if (options.target.accuracy && options.target.loss) {
    throw UsageError("give either --target-accuracy or --target-loss");
  }
}

Result<void> plan(const PlanOptions& options) {
  lab::ScalingOptions scaling;
  TAUT_TRY(scaling.cluster, read_lab_cluster(options.cluster));
  scaling.workers = counts_of(options.workers);
  scaling.slacks = slacks_of(options.slacks);
  check_together(options, scaling.slacks);
  HostTypes types;
  if (!options.throughput.empty()) {
    TAUT_TRY(types, host_types(options.host_types, scaling.cluster, options.cluster));
  }
  scaling.servers = options.train.servers;
  scaling.checks = options.checks;
  scaling.memory = Bytes(options.memory_limit);
  TrainOptions train = options.train;
  // The job's settings for its workers, such as min_workers, are for the largest number.
  train.job.workers = *std::ranges::max_element(scaling.workers);
  TAUT_TRY(scaling.job, training_job(train));
  if (options.has_target()) {
    TAUT_TRY(check_target(scaling.job, options.target));
  }
  for (const std::uint32_t workers : scaling.workers) {
    pb::Job job = scaling.job;
    job.set_workers(workers);
    TAUT_TRY(const auto misfit, lab::cluster_misfit(job, scaling.cluster, scaling.servers));
    if (misfit) return lab_cluster_error(options.cluster, misfit->steps, misfit->what);
  }
  // Messages of the lab's processes are not about the formula.
  log::Options quiet;
  quiet.role = quiet.name = "lab";
  quiet.level = "error";
  TAUT_TRY(log::start(quiet));
  TAUT_TRY(const auto points, lab::plan_scaling(scaling));
  print(points, options.records);
  if (!options.throughput.empty()) {
    TAUT_TRY(const std::size_t rates, write_throughput(scaling, types, options.throughput));
    fmt::print("throughput: {}, {}\n", options.throughput,
               counted(static_cast<std::int64_t>(rates), "rate"));
  }
  if (!options.has_target()) return ok();
  watch_stop_signals();
  return print_target(scaling, options.target);
}

}  // namespace

void add_lab_plan(Command& lab, int& status) {
  constexpr std::uint64_t kMaxServers = 4096;
  constexpr std::uint64_t kMaxRecords = 1'000'000'000'000'000;
  auto options = std::make_shared<PlanOptions>();
  Command command =
      lab.command("plan", "Estimates by a formula how a job scales with workers on a cluster",
                  "Example: tautline lab plan --cluster configs/lab/ten_gigabit.textproto "
                  "--workers 1..256 --slack 0");
  command
      .text("JOB", options->train.job_file, "Job or solver file (default: LeNet on Fashion-MNIST)")
      .value("FILE");
  command.text("--cluster", options->cluster, "Cluster file of the lab").value("FILE").required();
  command.text("--workers", options->workers, "How many: 1..256 is 1, 2, 4 and so on; or 1,2,16")
      .by_default(options->workers);
  command.whole_number("--servers", options->train.servers, "Servers", 1, kMaxServers)
      .by_default(std::to_string(options->train.servers));
  command
      .text("--slack", options->slacks,
            "As in train; several with ',' between, e.g. 0,3,async (default: the job's)")
      .value("SLACK");
  command.whole_number(
      "--records", options->records,
      "Shows the time and cost of training on this many, and the fastest and the cheapest workers "
      "and slack; for the effect of a slack on accuracy use sweep --lab",
      1, kMaxRecords);
  command.text("--data", options->train.job.data, "Folder of the data set").value("DIR");
  command.flag("--check", options->checks,
               "Trains some clocks of each in the lab, without learning, and shows how far the "
               "formula is off");
  command.number("--target-accuracy", options->target.accuracy,
                 "Also trains each in the lab with real gradients until a test has this accuracy, "
                 "and names the "
                 "fastest and the cheapest workers and slack: takes as long as the lab does",
                 "PART", {.min = 0, .max = 1, .excludes_limits = true});
  command.number("--target-loss", options->target.loss,
                 "As --target-accuracy, until a test has at most this loss", "LOSS",
                 {.min = 0, .excludes_limits = true});
  command.whole_number("--max-iter", options->train.job.max_iter,
                       "Clocks of a training that does not reach the target (default: the job's)",
                       1);
  command.byte_size("--memory-limit", options->memory_limit,
                    "With --check and targets: ends with an error if the lab would take more "
                    "memory, e.g. 4GiB (default: no limit)");
  command
      .text("--throughput", options->throughput,
            "Also writes iterations/s by workers for each kind of host, on one and on several, "
            "for lab schedule --throughput")
      .value("FILE");
  command
      .texts("--host-type", options->host_types,
             "With --throughput: the device types of hosts that are not named after one")
      .value("HOST=TYPE")
      .separated_by_commas()
      .check(check_host_type);
  command.on_run([options, &status] {
    if (const auto done = plan(*options); !done) status = fail("lab plan", done.error().message);
  });
}

}  // namespace taut::cli
