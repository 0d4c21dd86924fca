#include "tests/bench/data_plane/memory_check.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "tests/bench/data_plane/bench_cluster.hpp"
#include "tests/bench/data_plane/memory_use.hpp"

namespace taut::bench {
namespace {

/// In sizes of the tables.
struct MemoryUse {
  double server = 0;
  double worker = 0;
};

Result<MemoryUse> measure_memory(const Options& options, const Variant& variant, int workers,
                                 pb::Consistency::Mode mode) {
  TAUT_TRY(auto cluster, BenchCluster::start(options, variant, 1));
  const int server = cluster.server_pids()[0];
  const std::uint64_t server_before = own_memory(server);
  for (int i = 0; i < workers; ++i) {
    TAUT_TRY(cluster.add_worker(4UL << 20U, {"--memory"}));
  }
  TAUT_TRY(cluster.await_joined());
  std::vector<int> pids = cluster.worker_pids();
  pids.insert(pids.begin(), server);
  MemoryWatch watch(pids);
  TAUT_TRY(cluster.run_job(mode));
  const auto peaks = watch.peaks();
  const auto tables = static_cast<double>(options.bytes_of_tables);
  MemoryUse use;
  use.server = static_cast<double>(peaks[0] - server_before) / tables;
  for (std::size_t i = 0; i + 1 < peaks.size(); ++i) {
    TAUT_TRY(const auto samples, cluster.samples_of(i));
    for (const Sample& sample : samples) {
      const double own = static_cast<double>(peaks[i + 1]) - sample.gigabytes * 1e9;
      // The values that the worker reads into are its cache, not the transport's.
      use.worker = std::max(use.worker, own / tables - 1);
    }
  }
  cluster.stop();
  return use;
}

bool print_use(const Variant& variant, int workers, bool bsp, const MemoryUse& use,
               nlohmann::json& report) {
  // One answer of each slice may be under way to each worker; small things are a quarter.
  const double server_limit = 2 + workers + (bsp ? workers - 1 : 0) + 0.25;
  const double worker_limit = 2 + 0.25;
  const bool kept = use.server <= server_limit && use.worker <= worker_limit;
  fmt::print(
      "  {} worker{} {}: server {:.2f} x the parameters (limit {:.2f}), transport of a "
      "worker {:.2f} x (limit {:.2f}){}\n",
      workers, workers == 1 ? ", " : "s,", bsp ? "BSP" : "SSP", use.server, server_limit,
      use.worker, worker_limit, kept ? "" : ": ABOVE THE LIMIT");
  report["memory"].push_back({{"workers", workers},
                              {"mode", bsp ? "BSP" : "SSP"},
                              {"transport", variant.transport},
                              {"server", use.server},
                              {"server_limit", server_limit},
                              {"worker", use.worker},
                              {"worker_limit", worker_limit}});
  return kept;
}

}  // namespace

Result<bool> check_memory_use(const Options& options, nlohmann::json& report) {
  Options first = options;
  first.security.resize(1);
  first.io_threads.resize(1);
  first.shards.resize(1);
  bool all_kept = true;
  for (const Variant& variant : variants_of(first)) {
    fmt::print("memory in training, 32 MiB of parameters, {}\n", variant.name());
    for (const int workers : options.memory_workers) {
      if (workers <= 0) continue;
      for (const bool bsp : {false, true}) {
        const auto mode = bsp ? pb::Consistency::BSP : pb::Consistency::SSP;
        TAUT_TRY(const MemoryUse use, measure_memory(options, variant, workers, mode));
        all_kept = print_use(variant, workers, bsp, use, report) && all_kept;
      }
    }
  }
  return all_kept;
}

}  // namespace taut::bench
