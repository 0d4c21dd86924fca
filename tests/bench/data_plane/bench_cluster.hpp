#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "cli/child_process.hpp"
#include "cli/local_cluster.hpp"
#include "common/result.hpp"
#include "proto/job.pb.h"
#include "tests/bench/data_plane/measure.hpp"
#include "tests/bench/data_plane/options.hpp"

namespace taut::bench {

/// Real servers on loopback, and copies of this program as their workers.
class BenchCluster {
 public:
  /// REQUIRES  `options` outlives it
  [[nodiscard]] static Result<BenchCluster> start(const Options& options, Variant variant,
                                                  int servers);
  /// A worker whose tables have this many bytes each. more  its further arguments
  [[nodiscard]] Result<void> add_worker(std::uint64_t table_bytes,
                                        const std::vector<std::string>& more = {});
  /// Waits until the workers that were added have joined.
  [[nodiscard]] Result<void> await_joined();
  /// Runs the bench's job until each worker has ended.
  [[nodiscard]] Result<void> run_job(pb::Consistency::Mode mode);
  /// What a worker printed.
  [[nodiscard]] Result<std::vector<Sample>> samples_of(std::size_t worker) const;

  [[nodiscard]] std::vector<int> server_pids();
  [[nodiscard]] std::vector<int> worker_pids() const;
  void stop() { cluster_.stop(Duration(5'000'000)); }

 private:
  BenchCluster(const Options& options, Variant variant, cli::LocalCluster cluster)
      : options_(&options), variant_(std::move(variant)), cluster_(std::move(cluster)) {}
  [[nodiscard]] std::filesystem::path log_of(std::size_t worker) const;

  const Options* options_;
  Variant variant_;
  cli::LocalCluster cluster_;
  std::vector<cli::ChildProcess> workers_;
};

}  // namespace taut::bench
