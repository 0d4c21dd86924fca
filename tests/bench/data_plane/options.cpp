#include "tests/bench/data_plane/options.hpp"

#include <fmt/format.h>

#include <cstdlib>

namespace taut::bench {

std::string Variant::name() const {
  std::string way = "through UCX";
  if (transport == "tcp") way = "through TCP";
  if (transport == "shared") way = "in shared memory";
  if (transport == "ucx-tcp") way = "through UCX over TCP";
  if (transport == "ucx-shm") way = "through UCX over shared memory";
  std::string name =
      fmt::format("{}, {}, {} I/O thread{}", way, security, io_threads, io_threads == 1 ? "" : "s");
  if (shards > 1) name += fmt::format(", {} shards a server", shards);
  return name;
}

void Variant::choose_ucx_transports() const {
  if (transport == "ucx-tcp") setenv("UCX_TLS", "tcp", 1);
  // UCX leaves cma out of connections that notice a lost peer: posix carries the bytes.
  if (transport == "ucx-shm") setenv("UCX_TLS", "tcp,posix,cma", 1);
}

std::vector<Variant> variants_of(const Options& options) {
  std::vector<Variant> variants;
  for (const std::string& transport : options.transports) {
    for (const std::string& security : options.security) {
      // UCX encrypts nothing, and is refused otherwise.
      if (Variant{transport, security}.is_ucx() && security != "token") continue;
      for (const int threads : options.io_threads) {
        for (const int shards : options.shards) {
          variants.push_back({transport, security, threads, shards});
        }
      }
    }
  }
  return variants;
}

std::string size_name(std::uint64_t bytes) {
  return bytes >= (1U << 20U) ? fmt::format("{} MiB", bytes >> 20U)
                              : fmt::format("{} KiB", bytes >> 10U);
}

}  // namespace taut::bench
