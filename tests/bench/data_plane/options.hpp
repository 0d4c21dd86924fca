#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "tests/bench/data_plane/bench_worker.hpp"
#include "worker/client/send_policy.hpp"

namespace taut::bench {

struct Options {
  std::vector<std::uint64_t> sizes = {4096, 65536, 1 << 20, 4 << 20, 64 << 20};
  std::vector<std::string> clusters = {"1x1", "1x2", "2x1", "2x2"};
  std::vector<std::string> transports = {"tcp", "shared"};
  // Without encryption, as the plain programs are.
  std::vector<std::string> security = {"token"};
  std::vector<int> io_threads = {1};
  std::vector<int> shards = {1};  // of each server; a worker has a connection to each
  double seconds = 1;
  std::uint64_t window = SendPolicy{}.window.value();
  std::uint64_t bytes_of_tables = kBytesOfTables;
  std::string json;
  int rounds = 1;
  std::vector<int> memory_workers = {1, 2, 4};
  bool requires_targets = false;  // a missed one is an error
  std::filesystem::path folder;
};

/// One way to run Tautline; they take turns.
struct Variant {
  std::string transport;
  std::string security;
  int io_threads = 1;
  int shards = 1;  // of each server

  [[nodiscard]] bool is_ucx() const { return transport.starts_with("ucx"); }
  /// "through TCP, token, 1 I/O thread", and "2 shards a server" where there are several
  [[nodiscard]] std::string name() const;
  /// Sets the environment of the processes that are started from now on.
  void choose_ucx_transports() const;
};

/// Each transport with each security that it takes and each number of I/O threads and of shards.
/// The first one of a transport and security is what the others of it are compared with.
[[nodiscard]] std::vector<Variant> variants_of(const Options& options);

/// "4 KiB", "1 MiB"
[[nodiscard]] std::string size_name(std::uint64_t bytes);

}  // namespace taut::bench
