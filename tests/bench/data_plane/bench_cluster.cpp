#include "tests/bench/data_plane/bench_cluster.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <sstream>

#include "common/files/file.hpp"
#include "proto/session/control_client.hpp"
#include "tests/bench/data_plane/roles.hpp"

namespace taut::bench {

namespace fs = std::filesystem;

Result<BenchCluster> BenchCluster::start(const Options& options, Variant variant, int servers) {
  variant.choose_ucx_transports();
  cli::LocalClusterOptions of_cluster;
  of_cluster.servers = static_cast<std::uint32_t>(servers);
  of_cluster.shards = static_cast<std::uint32_t>(variant.shards);
  of_cluster.workers = 0;
  of_cluster.folder = options.folder;
  of_cluster.insecure = variant.security == "insecure";
  if (variant.security == "token") of_cluster.data_security = pb::ClusterConfig::TOKEN;
  of_cluster.io_threads = static_cast<std::uint32_t>(variant.io_threads);
  if (variant.is_ucx()) of_cluster.transport = pb::ServerConfig::UCX;
  TAUT_TRY(auto cluster, cli::LocalCluster::start(of_cluster));
  return BenchCluster(options, std::move(variant), std::move(cluster));
}

Result<void> BenchCluster::add_worker(std::uint64_t table_bytes,
                                      const std::vector<std::string>& more) {
  const fs::path log = log_of(workers_.size());
  std::error_code ignored;
  fs::remove(log, ignored);
  std::vector<std::string> arguments = {
      "--worker",
      fmt::format("bench{}", workers_.size()),
      "--coordinator",
      cluster_.coordinator(),
      "--server-pids",
      fmt::format("{}", fmt::join(server_pids(), ",")),
      "--size",
      std::to_string(table_bytes),
      "--seconds",
      std::to_string(options_->seconds),
      "--window",
      std::to_string(options_->window),
      "--bytes-of-tables",
      std::to_string(options_->bytes_of_tables),
      "--io-threads",
      std::to_string(variant_.io_threads),
      variant_.transport == "shared" ? "--shared-memory" : "--no-shared-memory"};
  if (variant_.security != "insecure") {
    arguments.insert(arguments.end(), {"--keys", cluster_.keys().string()});
  }
  arguments.insert(arguments.end(), more.begin(), more.end());
  TAUT_TRY(auto child, start_role(std::move(arguments), log));
  workers_.push_back(std::move(child));
  return ok();
}

Result<void> BenchCluster::await_joined() {
  TAUT_TRY(const Security security, cluster_.user_security());
  TAUT_TRY(auto control, connect_control(cluster_.coordinator(), 10, security));
  return await_workers(control, static_cast<int>(workers_.size()));
}

Result<void> BenchCluster::run_job(pb::Consistency::Mode mode) {
  TAUT_TRY(const Security security, cluster_.user_security());
  TAUT_TRY(auto control, connect_control(cluster_.coordinator(), 10, security));
  TAUT_TRY(control.submit(bench_job(static_cast<int>(workers_.size()), mode)));
  return await_all(workers_, 60 + 20 * options_->seconds);
}

Result<std::vector<Sample>> BenchCluster::samples_of(std::size_t worker) const {
  TAUT_TRY(const std::string text, read_file(log_of(worker)));
  std::istringstream lines(text);
  std::string line;
  std::vector<Sample> samples;
  while (std::getline(lines, line)) {
    if (line.starts_with('{')) samples.push_back(sample_of(nlohmann::json::parse(line)));
  }
  return samples;
}

std::vector<int> BenchCluster::server_pids() {
  std::vector<int> pids;
  for (const cli::ChildProcess& server : cluster_.children()) pids.push_back(server.pid());
  return pids;
}

std::vector<int> BenchCluster::worker_pids() const {
  std::vector<int> pids;
  pids.reserve(workers_.size());
  for (const cli::ChildProcess& worker : workers_) pids.push_back(worker.pid());
  return pids;
}

fs::path BenchCluster::log_of(std::size_t worker) const {
  return options_->folder / fmt::format("bench{}.out", worker);
}

}  // namespace taut::bench
