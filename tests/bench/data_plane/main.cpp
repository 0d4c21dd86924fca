// tautline-bench: what moving and applying parameters costs, next to plain ZeroMQ programs
// and to what memory allows.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <cstdio>
#include <filesystem>

#include "common/files/file.hpp"
#include "common/system/memory.hpp"
#include "tests/bench/data_plane/bench_worker.hpp"
#include "tests/bench/data_plane/limits.hpp"
#include "tests/bench/data_plane/memory_check.hpp"
#include "tests/bench/data_plane/options.hpp"
#include "tests/bench/data_plane/raw_pair.hpp"
#include "tests/bench/data_plane/targets.hpp"
#include "tests/bench/data_plane/turns.hpp"

namespace {

using namespace taut;
using namespace taut::bench;
namespace fs = std::filesystem;

/// Prints what memory allows; returns GB/s of payload that it allows an applied push.
double measure_limits(const Options& options, nlohmann::json& report) {
  fmt::print("limits in this run: memcpy\n");
  for (const std::uint64_t size : options.sizes) {
    fmt::print("  {:>8}  {:>7.1f} GB/s\n", size_name(size), memcpy_rate(size));
  }
  fmt::print("update rules, 64 MiB of parameters, one thread; a triad in place for comparison\n");
  double memory_model = 0;
  for (const RuleRate& rate : rule_rates(64ULL << 20U)) {
    // An applied push of SGD reads the update and the value and writes the value.
    memory_model = rate.triad_rate / 3;
    fmt::print("  {:>17}  {:6.1f} GB/s, {:.0f} % of a triad's {:.1f} GB/s\n", rate.rule,
               rate.rule_rate, 100 * rate.rule_rate / rate.triad_rate, rate.triad_rate);
    report["rules"].push_back(
        {{"rule", rate.rule}, {"gb_s", rate.rule_rate}, {"triad_gb_s", rate.triad_rate}});
  }
  return memory_model;
}

Result<void> run_bench(const Options& options) {
  nlohmann::json report;
  report["rows"] = nlohmann::json::array();
  const double memory_model = measure_limits(options, report);
  int missed = 0;
  for (const std::string& cluster : options.clusters) {
    fmt::print("{} server{}, {} worker{}\n", cluster[0], cluster[0] == '1' ? "" : "s", cluster[2],
               cluster[2] == '1' ? "" : "s");
    TAUT_TRY(const Medians medians, measure_in_turns(options, cluster, report));
    print_medians(options, medians, memory_model);
    missed += print_table(options, cluster, medians);
  }
  TAUT_TRY(const bool memory_kept, check_memory_use(options, report));
  if (!options.json.empty()) {
    TAUT_TRY(write_file_atomically(options.json, report.dump(2) + "\n"));
  }
  if (!memory_kept) return make_error(ErrorCode::kInvalid, "memory is above its limit");
  if (options.requires_targets && missed > 0) {
    return make_error(ErrorCode::kInvalid, fmt::format("{} of the targets are missed", missed));
  }
  return ok();
}

int work(const WorkerOptions& options) {
  const auto samples = run_worker(options);
  if (!samples) {
    fmt::print(stderr, "{}: {}\n", options.name, samples.error().message);
    return 1;
  }
  for (const Sample& sample : samples.value()) fmt::print("{}\n", to_json(sample).dump());
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  Options options;
  WorkerOptions worker;
  bool raw_server = false;
  CLI::App app("Times push, pull and push+pull against real server processes on loopback.");
  app.footer("Example:\n  tautline-bench --clusters 1x1 --sizes 4096,1048576 --json out.json");
  app.add_option("--sizes", options.sizes, "Table sizes in bytes")->delimiter(',');
  app.add_option("--clusters", options.clusters, "Servers x workers, such as 1x1,2x2")
      ->delimiter(',');
  app.add_option(
         "--transports", options.transports,
         "tcp, shared; with --security token also ucx (as UCX_TLS says), ucx-tcp, ucx-shm "
         "(UCX_TLS=tcp,posix,cma: posix carries the bytes and cma none, which UCX leaves out "
         "of connections that notice a lost peer). All frames are in the host's memory: none "
         "is CUDA memory")
      ->delimiter(',')
      ->check(CLI::IsMember({"tcp", "shared", "ucx", "ucx-tcp", "ucx-shm"}));
  app.add_flag("--shared-memory,!--no-shared-memory", worker.shared_memory, "")->group("");
  app.add_option("--window", options.window, "Bytes of updates under way to a shard");
  app.add_option("--bytes-of-tables", options.bytes_of_tables,
                 "Of all tables of a size; at least one table, and 1,024 at most");
  app.add_option("--seconds", options.seconds, "Of each measurement");
  app.add_option("--memory-workers", options.memory_workers,
                 "Numbers of workers whose memory is checked; 0: none")
      ->delimiter(',');
  app.add_flag("--memory", worker.memory, "")->group("");
  app.add_option("--security", options.security, "curve, token, insecure: they take turns")
      ->delimiter(',')
      ->check(CLI::IsMember({"curve", "token", "insecure"}));
  app.add_option("--rounds", options.rounds, "Turns of each; medians are printed")
      ->check(CLI::Range(1, 1000));
  app.add_option("--io-threads", options.io_threads,
                 "Of each process, 1 to 64: several numbers take turns")
      ->delimiter(',')
      ->check(CLI::Range(1, 64));
  app.add_option("--shards", options.shards,
                 "Of each server, 1 to 16, with a connection of each worker to each: several "
                 "numbers take turns")
      ->delimiter(',')
      ->check(CLI::Range(1, 16));
  app.add_flag("--require-targets", options.requires_targets,
               "Exits with 1 if a target of one server and one worker is missed");
  app.add_option("--server-pids", worker.server_pids, "")->delimiter(',')->group("");
  app.add_option("--keys", worker.keys, "")->group("");
  app.add_option("--json", options.json, "Writes every row there");
  app.add_option("--worker", worker.name, "")->group("");
  app.add_option("--coordinator", worker.coordinator, "")->group("");
  app.add_option("--size", worker.table_bytes, "")->group("");
  app.add_flag("--raw-server", raw_server, "")->group("");
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    constexpr int kUsage = 2;
    return app.exit(error) == 0 ? 0 : kUsage;
  }
  // Rows appear as they are measured, also in a file or a pipe.
  std::setvbuf(stdout, nullptr, _IOLBF, 1 << 12);
  if (raw_server) {
    serve_raw_zmq();
    return 0;
  }
  worker.seconds = options.seconds;
  worker.window = options.window;
  worker.bytes_of_tables = options.bytes_of_tables;
  worker.io_threads = options.io_threads.front();
  if (!worker.name.empty()) {
    // As the worker daemon does; the raw ZeroMQ pair runs as it comes.
    keep_freed_memory();
    return work(worker);
  }

  options.folder = fs::temp_directory_path() / fmt::format("tautline-bench-{}", getpid());
  fs::create_directories(options.folder);
  const auto done = run_bench(options);
  std::error_code ignored;
  fs::remove_all(options.folder, ignored);
  if (!done) fmt::print(stderr, "tautline-bench: {}\n", done.error().message);
  return done ? 0 : 1;
}
