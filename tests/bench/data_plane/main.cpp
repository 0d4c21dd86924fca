// tautline-bench: what moving and applying parameters costs, next to the limits it is held against.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <cstdio>
#include <filesystem>
#include <sstream>

#include "cli/child_process.hpp"
#include "cli/local_cluster.hpp"
#include "common/files/file.hpp"
#include "common/log.hpp"
#include "common/system/memory.hpp"
#include "proto/session/control_client.hpp"
#include "tests/bench/data_plane/bench_worker.hpp"
#include "tests/bench/data_plane/limits.hpp"
#include "tests/bench/data_plane/memory_use.hpp"
#include "tests/bench/data_plane/roles.hpp"

namespace {

using namespace taut;
using namespace taut::bench;
namespace fs = std::filesystem;

struct Options {
  std::vector<std::uint64_t> sizes = {4096, 65536, 1 << 20, 4 << 20, 64 << 20};
  std::vector<std::string> clusters = {"1x1", "1x2", "2x1", "2x2"};
  std::vector<std::string> transports = {"tcp", "shared"};
  double seconds = 1;
  std::uint64_t window = SendPolicy{}.window.value();
  std::string json;
  std::vector<std::string> security = {"curve"};
  int rounds = 1;
  int io_threads = 1;
  std::vector<int> memory_workers = {1, 2, 4};
  fs::path folder;
};

std::string size_name(std::uint64_t bytes) {
  return bytes >= (1U << 20U) ? fmt::format("{} MiB", bytes >> 20U)
                              : fmt::format("{} KiB", bytes >> 10U);
}

// What the bench's tables of 4 MiB are together: see bench_tables().
constexpr double kMemoryTables = 32.0 * (1U << 20U);

class Bench {
 public:
  explicit Bench(Options options) : options_(std::move(options)) {
    report_["rows"] = nlohmann::json::array();
  }

  Result<void> run() {
    TAUT_TRY(measure_limits());
    for (const std::string& cluster : options_.clusters) {
      for (int i = 0; i < options_.rounds; ++i) {
        TAUT_TRY(measure_in_turns(cluster));
      }
    }
    security_ = options_.security.front();
    for (const std::string& transport : options_.transports) {
      transport_ = transport;
      if (is_ucx() && security_ != "token") continue;
      choose_ucx_transports();
      fmt::print("memory in training, 32 MiB of parameters, payloads {}\n", transport_name());
      for (const int workers : options_.memory_workers) {
        if (workers <= 0) continue;
        TAUT_TRY(measure_memory(workers, pb::Consistency::SSP));
        TAUT_TRY(measure_memory(workers, pb::Consistency::BSP));
      }
    }
    if (!options_.json.empty()) {
      TAUT_TRY(write_file_atomically(options_.json, report_.dump(2) + "\n"));
    }
    if (!memory_kept_) return make_error(ErrorCode::kInvalid, "memory is above its limit");
    return ok();
  }

 private:
  /// Each transport with each security that it takes, once.
  Result<void> measure_in_turns(const std::string& cluster) {
    for (const std::string& transport : options_.transports) {
      for (const std::string& security : options_.security) {
        transport_ = transport;
        security_ = security;
        if (is_ucx() && security != "token") continue;
        choose_ucx_transports();
        TAUT_TRY(measure_cluster(cluster[0] - '0', cluster[2] - '0'));
      }
    }
    return ok();
  }

  [[nodiscard]] bool is_ucx() const { return transport_.starts_with("ucx"); }

  /// For the processes that are started from now on.
  void choose_ucx_transports() const {
    if (transport_ == "ucx-tcp") setenv("UCX_TLS", "tcp", 1);
    if (transport_ == "ucx-shm") setenv("UCX_TLS", "tcp,posix,cma", 1);
  }

  Result<void> measure_limits() {
    const fs::path log = options_.folder / "raw.log";
    TAUT_TRY(auto echo, start_role({"--raw-server"}, log));
    TAUT_TRY(const std::string address, first_line(log));
    fmt::print("limits in this run\n  {:>8}  {:>14} {:>14} {:>12}\n", "size", "raw ZMQ push",
               "raw push+pull", "memcpy");
    for (const std::uint64_t size : options_.sizes) {
      const auto raw = raw_zmq(address, size, options_.seconds);
      raw_[size] = raw;
      const double copied = memcpy_rate(size);
      fmt::print("  {:>8}  {:>9.2f} GB/s {:>9.2f} GB/s {:>7.1f} GB/s\n", size_name(size),
                 raw[0].rate(), raw[1].rate(), copied);
      for (const Sample& sample : raw) add_row("raw ZeroMQ", "", {sample}, 0);
      if (raw[2].median_us > 0) {
        fmt::print("  {:>8}  raw ZeroMQ round trip {:.0f} us\n", size_name(size), raw[2].median_us);
      }
    }
    echo.kill();
    fmt::print("update rules, 64 MiB of parameters, one thread; a triad in place for comparison\n");
    for (const RuleRate& rate : rule_rates(64ULL << 20U)) {
      // An applied push of SGD reads the update and the value and writes the value.
      memory_model_ = rate.triad_rate / 3;
      fmt::print("  {:>17}  {:6.1f} GB/s, {:.0f} % of a triad's {:.1f} GB/s\n", rate.rule,
                 rate.rule_rate, 100 * rate.rule_rate / rate.triad_rate, rate.triad_rate);
      report_["rules"].push_back(
          {{"rule", rate.rule}, {"gb_s", rate.rule_rate}, {"triad_gb_s", rate.triad_rate}});
    }
    return ok();
  }

  Result<void> measure_cluster(int servers, int workers) {
    fmt::print("{} server{}, {} worker{}, payloads {}, {}\n", servers, servers == 1 ? "" : "s",
               workers, workers == 1 ? "" : "s", transport_name(), security_);
    for (const std::uint64_t size : options_.sizes) {
      TAUT_TRY(measure_size(servers, workers, size));
    }
    return ok();
  }

  Result<void> measure_size(int servers, int workers, std::uint64_t size) {
    cli::LocalClusterOptions cluster_options;
    cluster_options.servers = static_cast<std::uint32_t>(servers);
    cluster_options.workers = 0;
    cluster_options.folder = options_.folder;
    set_security(cluster_options);
    TAUT_TRY(auto cluster, cli::LocalCluster::start(cluster_options));
    std::vector<cli::ChildProcess> children;
    for (int i = 0; i < workers; ++i) {
      TAUT_TRY(auto child, start_worker(i, cluster, size, {}));
      children.push_back(std::move(child));
    }
    TAUT_TRY(const Security security, cluster.user_security());
    TAUT_TRY(auto control, connect_control(cluster.coordinator(), 10, security));
    TAUT_TRY(await_workers(control, workers));
    TAUT_TRY(control.submit(bench_job(workers)));
    TAUT_TRY(await_all(children, 60 + 20 * options_.seconds));
    double server_cpu = 0;
    for (cli::ChildProcess& server : cluster.children()) server_cpu += cpu_seconds_of(server.pid());
    TAUT_TRY(print_samples(servers, workers, size, server_cpu));
    cluster.stop(Duration(5'000'000));
    return ok();
  }

  /// The maximum of private memory of servers and workers in a training, compared with what the
  /// design allows them.
  Result<void> measure_memory(int workers, pb::Consistency::Mode mode) {
    cli::LocalClusterOptions cluster_options;
    cluster_options.servers = 1;
    cluster_options.workers = 0;
    cluster_options.folder = options_.folder;
    set_security(cluster_options);
    TAUT_TRY(auto cluster, cli::LocalCluster::start(cluster_options));
    TAUT_TRY(const Security security, cluster.user_security());
    TAUT_TRY(auto control, connect_control(cluster.coordinator(), 10, security));
    const int server = cluster.children()[0].pid();
    const std::uint64_t server_before = own_memory(server);
    std::vector<cli::ChildProcess> children;
    std::vector<int> pids = {server};
    for (int i = 0; i < workers; ++i) {
      TAUT_TRY(auto child, start_worker(i, cluster, 4UL << 20U, {"--memory"}));
      pids.push_back(child.pid());
      children.push_back(std::move(child));
    }
    TAUT_TRY(await_workers(control, workers));
    MemoryWatch watch(pids);
    TAUT_TRY(control.submit(bench_job(workers, mode)));
    TAUT_TRY(await_all(children, 60 + 20 * options_.seconds));
    const auto peaks = watch.peaks();
    std::vector<double> worker_tables;
    for (int i = 0; i < workers; ++i) {
      TAUT_TRY(const auto samples, samples_of(i));
      for (const Sample& sample : samples) {
        const double own =
            static_cast<double>(peaks[static_cast<std::size_t>(i) + 1]) - sample.gigabytes * 1e9;
        // The values that the worker reads into are its cache, not the transport's.
        worker_tables.push_back(own / kMemoryTables - 1);
      }
    }
    check_memory(workers, mode, static_cast<double>(peaks[0] - server_before) / kMemoryTables,
                 *std::ranges::max_element(worker_tables));
    cluster.stop(Duration(5'000'000));
    return ok();
  }

  void set_security(cli::LocalClusterOptions& cluster) const {
    cluster.insecure = security_ == "insecure";
    if (security_ == "token") cluster.data_security = pb::ClusterConfig::TOKEN;
    cluster.io_threads = static_cast<std::uint32_t>(options_.io_threads);
    if (is_ucx()) cluster.transport = pb::ServerConfig::UCX;
  }

  /// server, worker  in sizes of the tables
  void check_memory(int workers, pb::Consistency::Mode mode, double server, double worker) {
    // One answer of each slice may be under way to each worker; small things are a quarter.
    const bool bsp = mode == pb::Consistency::BSP;
    const double server_limit = 2 + workers + (bsp ? workers - 1 : 0) + 0.25;
    const double worker_limit = 2 + 0.25;
    const bool kept = server <= server_limit && worker <= worker_limit;
    fmt::print(
        "  {} worker{} {}: server {:.2f} x the parameters (limit {:.2f}), transport of a "
        "worker {:.2f} x (limit {:.2f}){}\n",
        workers, workers == 1 ? ", " : "s,", bsp ? "BSP" : "SSP", server, server_limit, worker,
        worker_limit, kept ? "" : ": ABOVE THE LIMIT");
    report_["memory"].push_back({{"workers", workers},
                                 {"mode", bsp ? "BSP" : "SSP"},
                                 {"transport", transport_},
                                 {"server", server},
                                 {"server_limit", server_limit},
                                 {"worker", worker},
                                 {"worker_limit", worker_limit}});
    memory_kept_ = memory_kept_ && kept;
  }

  Result<cli::ChildProcess> start_worker(int i, const cli::LocalCluster& cluster,
                                         std::uint64_t size, const std::vector<std::string>& more) {
    std::error_code ignored;
    fs::remove(worker_log(i), ignored);
    std::vector<std::string> arguments = {
        "--worker",
        fmt::format("bench{}", i),
        "--coordinator",
        cluster.coordinator(),
        "--size",
        std::to_string(size),
        "--seconds",
        std::to_string(options_.seconds),
        "--window",
        std::to_string(options_.window),
        "--io-threads",
        std::to_string(options_.io_threads),
        transport_ == "shared" ? "--shared-memory" : "--no-shared-memory"};
    if (security_ != "insecure") {
      arguments.insert(arguments.end(), {"--keys", cluster.keys().string()});
    }
    arguments.insert(arguments.end(), more.begin(), more.end());
    return start_role(std::move(arguments), worker_log(i));
  }

  /// What a worker printed.
  Result<std::vector<Sample>> samples_of(int worker) {
    TAUT_TRY(const std::string text, read_file(worker_log(worker)));
    std::istringstream lines(text);
    std::string line;
    std::vector<Sample> samples;
    while (std::getline(lines, line)) {
      if (line.starts_with('{')) samples.push_back(sample_of(nlohmann::json::parse(line)));
    }
    return samples;
  }

  [[nodiscard]] fs::path worker_log(int i) const {
    return options_.folder / fmt::format("bench{}.out", i);
  }

  Result<void> print_samples(int servers, int workers, std::uint64_t size, double server_cpu) {
    std::map<std::string, std::vector<Sample>> patterns;
    double moved = 0;
    double cpu = server_cpu;
    for (int i = 0; i < workers; ++i) {
      TAUT_TRY(const auto samples, samples_of(i));
      for (const Sample& sample : samples) {
        patterns[sample.pattern].push_back(sample);
        moved += sample.pattern == "push+pull" ? 2 * sample.gigabytes : sample.gigabytes;
        cpu += sample.cpu_s;
      }
    }
    const std::string name = fmt::format("{}x{}", servers, workers);
    for (const auto& [pattern, samples] : patterns) add_row("tautline", name, samples, server_cpu);
    fmt::print("  {:>8}", size_name(size));
    for (const char* pattern : {"push", "pull", "push+pull"}) {
      double rate = 0;
      for (const Sample& sample : patterns[pattern]) rate += sample.rate();
      fmt::print("  {} {:5.2f} GB/s{}", pattern, rate, ratio_to_raw(pattern, size, rate, workers));
    }
    fmt::print("  {:.2f} CPU s/GB\n", moved > 0 ? cpu / moved : 0);
    for (const Sample& sample : patterns["round trip"]) {
      fmt::print("  {:>8}  round trip of push+pull {:.0f} us, {:.2f} x raw ZeroMQ\n",
                 size_name(size), sample.median_us, sample.median_us / raw_[size][2].median_us);
    }
    std::fflush(stdout);
    return ok();
  }

  [[nodiscard]] const char* transport_name() const {
    if (transport_ == "ucx-tcp") return "through UCX over TCP";
    if (transport_ == "ucx-shm") return "through UCX over shared memory";
    if (is_ucx()) return "through UCX";
    return transport_ == "tcp" ? "through TCP" : "in shared memory";
  }

  std::string ratio_to_raw(const std::string& pattern, std::uint64_t size, double rate,
                           int workers) {
    if (workers != 1 || pattern == "pull") return "";
    const Sample& raw = raw_[size][pattern == "push" ? 0 : 1];
    std::string text = fmt::format("{:.0f} % of raw", 100 * rate / raw.rate());
    if (pattern == "push" && transport_ == "shared") {
      text += fmt::format(", {:.0f} % of memory", 100 * rate / memory_model_);
    }
    return " (" + text + ")";
  }

  void add_row(const std::string& what, const std::string& cluster,
               const std::vector<Sample>& samples, double server_cpu) {
    for (const Sample& sample : samples) {
      nlohmann::json row = to_json(sample);
      row["what"] = what;
      row["cluster"] = cluster;
      row["transport"] = transport_;
      row["security"] = security_;
      row["server_cpu_s"] = server_cpu;
      report_["rows"].push_back(std::move(row));
    }
  }

  const Options options_;
  bool memory_kept_ = true;
  double memory_model_ = 0;  // GB/s of payload that memory allows an applied push
  std::string transport_ = "tcp";
  std::string security_;
  std::map<std::uint64_t, std::vector<Sample>> raw_;
  nlohmann::json report_;
};

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
  app.add_option("--transports", options.transports,
                 "tcp, shared; with --security token also ucx (as UCX_TLS says), ucx-tcp, ucx-shm")
      ->delimiter(',')
      ->check(CLI::IsMember({"tcp", "shared", "ucx", "ucx-tcp", "ucx-shm"}));
  app.add_flag("--shared-memory,!--no-shared-memory", worker.shared_memory, "")->group("");
  app.add_option("--window", options.window, "Bytes of updates under way to a shard");
  app.add_option("--seconds", options.seconds, "Of each measurement");
  app.add_option("--memory-workers", options.memory_workers,
                 "Numbers of workers whose memory is checked; 0: none")
      ->delimiter(',');
  app.add_flag("--memory", worker.memory, "")->group("");
  app.add_option("--security", options.security, "curve, token, insecure: they take turns")
      ->delimiter(',')
      ->check(CLI::IsMember({"curve", "token", "insecure"}));
  app.add_option("--rounds", options.rounds, "Turns of each")->check(CLI::Range(1, 1000));
  app.add_option("--io-threads", options.io_threads, "Of each process, 1 to 64")
      ->check(CLI::Range(1, 64));
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
  worker.io_threads = options.io_threads;
  if (!worker.name.empty()) {
    // As the worker daemon does; the raw ZeroMQ pair runs as it comes.
    keep_freed_memory();
    return work(worker);
  }

  options.folder = fs::temp_directory_path() / fmt::format("tautline-bench-{}", getpid());
  fs::create_directories(options.folder);
  const auto done = Bench(options).run();
  std::error_code ignored;
  fs::remove_all(options.folder, ignored);
  if (!done) fmt::print(stderr, "tautline-bench: {}\n", done.error().message);
  return done ? 0 : 1;
}
