#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "common/result.hpp"
#include "tests/bench/data_plane/measure.hpp"
#include "worker/client/send_policy.hpp"

namespace taut::bench {

/// Of all tables of a size, if nothing else is chosen; at least one table, and 1,024 at most.
inline constexpr std::uint64_t kBytesOfTables = 32UL << 20U;

struct WorkerOptions {
  bool shared_memory = true;
  int io_threads = 1;
  std::string coordinator;
  std::string name;
  std::string keys;  // the folder of its key; empty: without keys
  std::uint64_t table_bytes = 1 << 20;
  double seconds = 1;            // of each pattern
  std::vector<int> server_pids;  // whose CPU time is read around each pattern
  std::uint64_t window = SendPolicy{}.window.value();
  std::uint64_t bytes_of_tables = kBytesOfTables;
  bool memory = false;  // the loop of a training, for its memory, instead of the patterns
};

/// Joins a cluster as a worker, takes the bench's job, and measures each pattern on its tables.
/// Errors    timeout, or what the cluster refused
[[nodiscard]] Result<std::vector<Sample>> run_worker(const WorkerOptions& options);

}  // namespace taut::bench
