#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <chrono>
#include <cstdio>
#include <ctime>
#include <string>

#include "lab/run_plan.hpp"
#include "lab/simulated_run.hpp"

namespace {

using namespace taut;
using namespace taut::sim;

struct Options {
  std::uint64_t seed = 1;
  std::uint64_t seeds = 1;
  std::int64_t steps = 0;
  std::uint32_t workers = 0;
  std::uint32_t servers = 0;
  std::string slack;
  std::string faults = "all";
  std::string policy;
  std::string compression;
  bool seeded = false;
  bool sync = false;
  std::uint32_t copies = 0;
  bool rows = false;
  bool daemon_limits = false;
  bool verbose = false;
  bool trace = false;
};

/// Errors    invalid: an argument without meaning
Result<PlanLimits> limits_of(const Options& options) {
  PlanLimits limits;
  limits.draws_faults = options.faults == "drawn";
  if (!limits.draws_faults) {
    TAUT_TRY(limits.faults, Faults::parse(options.faults));
  }
  if (options.steps > 0) limits.clocks = options.steps;
  if (options.workers > 0) limits.workers = options.workers;
  if (options.servers > 0) limits.servers = options.servers;
  if (!options.policy.empty()) {
    TAUT_TRY(limits.policy, find_policy(options.policy));
  }
  if (!options.compression.empty()) {
    TAUT_TRY(limits.scheme, find_scheme(options.compression));
  }
  if (options.seeded) limits.seeded = true;
  limits.logs_updates = options.sync;
  limits.by_rows = options.rows;
  limits.daemon_limits = options.daemon_limits;
  if (options.copies > 0) limits.copies = options.copies;
  if (options.slack == "async") {
    limits.slack = Slack::unbounded();
  } else if (!options.slack.empty()) {
    limits.slack = Slack(std::stol(options.slack));
  }
  return limits;
}

/// The arguments that fix a run, apart from its seed.
std::string arguments_of(const Options& options) {
  std::string all;
  const auto add_number = [&](const char* name, std::int64_t value) {
    if (value > 0) all += fmt::format(" --{} {}", name, value);
  };
  const auto add_word = [&](const char* name, const std::string& value) {
    if (!value.empty()) all += fmt::format(" --{} {}", name, value);
  };
  const auto add_flag = [&](const char* name, bool is_set) {
    if (is_set) all += fmt::format(" --{}", name);
  };
  add_number("steps", options.steps);
  add_number("workers", options.workers);
  add_number("servers", options.servers);
  add_number("copies", options.copies);
  add_word("slack", options.slack);
  add_word("faults", options.faults);
  add_word("policy", options.policy);
  add_word("compression", options.compression);
  add_flag("seeded", options.seeded);
  add_flag("sync", options.sync);
  add_flag("rows", options.rows);
  add_flag("daemon-limits", options.daemon_limits);
  return all;
}

/// The seeds in which something was under way at a take-over.
struct UnderWay {
  std::uint64_t all = 0;  // with any take-over
  std::uint64_t joins = 0;
  std::uint64_t mode_changes = 0;
  std::uint64_t checkpoints = 0;

  void add(const TakeOvers::Counts& counts) {
    all += counts.all > 0 ? 1 : 0;
    joins += counts.joins > 0 ? 1 : 0;
    mode_changes += counts.mode_changes > 0 ? 1 : 0;
    checkpoints += counts.checkpoints > 0 ? 1 : 0;
  }
};

int simulate(const Options& options, const PlanLimits& limits) {
  std::uint64_t hash = 0;
  std::uint64_t messages = 0;
  std::uint64_t reads = 0;
  std::uint64_t captured = 0;
  std::uint64_t failed = 0;
  UnderWay under_way;
  const std::clock_t begin = std::clock();
  for (std::uint64_t i = 0; i < options.seeds; ++i) {
    const std::uint64_t seed = options.seed + i;
    const auto print = [](const Event& event) { fmt::print("{}\n", describe(event)); };
    const Outcome outcome =
        options.trace ? run(draw_plan(seed, limits), print) : run(draw_plan(seed, limits));
    hash = Random::mix(hash + outcome.hash);
    messages += outcome.messages;
    reads += outcome.reads;
    captured += outcome.captured;
    failed += outcome.done ? 0 : 1;
    under_way.add(outcome.take_overs);
    if (options.verbose) {
      fmt::print(
          "seed {}: {} after {:.3f} s, {} messages, {} reads, {} take-overs, {} members {}\n", seed,
          outcome.state, seconds(outcome.took.since_origin()), outcome.messages, outcome.reads,
          outcome.take_overs.all, outcome.members, outcome.message);
    }
    if (outcome.broken) {
      fmt::print("seed {} breaks the contract: {}: {}\n", seed, outcome.broken->rule,
                 outcome.broken->what);
      fmt::print("again: tautline-sim --seed {}{}\n", seed, arguments_of(options));
      fmt::print("{:016x}\n", hash);
      return 1;
    }
  }
  const double spent = static_cast<double>(std::clock() - begin) / CLOCKS_PER_SEC;
  if (options.verbose) {
    fmt::print(
        "a server was taken over in {} seeds: in {} while a worker's join was being prepared, in "
        "{} while a change of mode or slack was, in {} while a checkpoint was ordered\n",
        under_way.all, under_way.joins, under_way.mode_changes, under_way.checkpoints);
  }
  // The time is printed to another stream: this output is the same for the same seed.
  fmt::print(stderr, "{:.2f} s of processor time: {:.0f} messages a second\n", spent,
             static_cast<double>(messages) / spent);
  fmt::print(
      "seeds {} to {}: {} messages, {} reads and {} slices of checkpoints checked, {} jobs ended "
      "early, none breaks the contract\n",
      options.seed, options.seed + options.seeds - 1, messages, reads, captured, failed);
  fmt::print("{:016x}\n", hash);
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  CLI::App app("Runs a simulated cluster on a faulty network and checks the consistency contract.");
  Options options;
  app.add_option("--seed", options.seed, "of the first run");
  app.add_option("--seeds", options.seeds, "how many runs, one seed after another");
  app.add_option("--steps", options.steps, "clocks of each worker; drawn where not given")
      // Beyond it the toy job's sums are no longer exact in float32.
      ->check(CLI::Range(1, 5000));
  app.add_option("--faults", options.faults,
                 "all, none, drawn (all in half of the seeds, some in the others), or of drop, "
                 "duplicate, delay, reorder, partition, reconnect, pause, kill, join, slack, "
                 "restart, disk, checkpoint, server, drain, follow, shrink, stop");
  app.add_option("--workers", options.workers, "drawn where not given");
  app.add_option("--servers", options.servers, "drawn where not given");
  app.add_option("--slack", options.slack, "0 is BSP; async; drawn where not given")
      ->check(CLI::Validator(
          [](const std::string& text) {
            const bool number = !text.empty() && text.size() < 10 &&
                                text.find_first_not_of("0123456789") == std::string::npos;
            return number || text == "async" ? "" : "a slack is a number of clocks, or async";
          },
          "SLACK"));
  std::string policies;
  for (const ToyPolicy& policy : toy_policies()) policies += fmt::format("{}, ", policy.name);
  app.add_option("--policy", options.policy, policies + "buffer, or drawn where not given");
  app.add_option("--compression", options.compression,
                 "the scheme of updates, as a job names it; drawn where not given");
  app.add_flag("--sync", options.sync,
               "where shards have backups, updates count once those have them; drawn where not "
               "given");
  app.add_option("--copies", options.copies,
                 "backups of each shard, and servers enough, where shards have backups; drawn "
                 "where not given")
      ->check(CLI::Range(1, 7));
  app.add_flag("--seeded", options.seeded,
               "members are programs that bring the initial values, wherever policy and "
               "compression allow it; drawn where not given");
  app.add_flag("--rows", options.rows,
               "a table or two by rows, wherever policy, compression and initial values allow it; "
               "drawn where not given");
  app.add_flag("--daemon-limits", options.daemon_limits,
               "workers give up, jobs wait for workers, and so on, in the daemons' proportion to "
               "the limit of heartbeats; otherwise most limits are longer");
  app.add_flag("--verbose", options.verbose,
               "one line for each run, and in how many seeds a join, a change of mode or a "
               "checkpoint was under way when a server was lost and taken over");
  app.add_flag("--trace", options.trace, "every event, up to the first that breaks the contract");
  CLI11_PARSE(app, argc, argv);
  const auto limits = limits_of(options);
  if (!limits) {
    fmt::print(stderr, "tautline-sim: {}\n", limits.error().message);
    return 2;
  }
  return simulate(options, limits.value());
}
