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
  return fmt::format("{}, {}, {} I/O thread{}", way, security, io_threads,
                     io_threads == 1 ? "" : "s");
}

void Variant::choose_ucx_transports() const {
  if (transport == "ucx-tcp") setenv("UCX_TLS", "tcp", 1);
  if (transport == "ucx-shm") setenv("UCX_TLS", "tcp,posix,cma", 1);
}

std::vector<Variant> variants_of(const Options& options) {
  std::vector<Variant> variants;
  for (const std::string& transport : options.transports) {
    for (const std::string& security : options.security) {
      for (const int threads : options.io_threads) {
        Variant variant{transport, security, threads};
        // UCX encrypts nothing, and is refused otherwise.
        if (variant.is_ucx() && security != "token") continue;
        variants.push_back(std::move(variant));
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
