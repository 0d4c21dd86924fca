// What a process draws and sets for UCX, even in a build without it.
#include <cstdlib>
#include <random>

#include "common/net/ucx/ucx_endpoint.hpp"

namespace taut {
namespace {

constexpr std::uint64_t kUcxBit = 1ULL << 62U;
constexpr std::uint64_t kDialedBit = 1ULL << 61U;

}  // namespace

PeerId new_ucx_number(bool is_dialed) {
  static thread_local std::random_device source;
  const std::uint64_t drawn = (std::uint64_t{source()} << 32U) | source();
  return PeerId(kUcxBit | (is_dialed ? kDialedBit : 0) | (drawn & (kDialedBit - 1)));
}

void prepare_to_listen_on_ucx() {
  setenv("UCX_TCP_CM_REUSEADDR", "y", 0);
}

bool is_ucx_number(PeerId peer) {
  return (peer.value() & kUcxBit) != 0;
}

}  // namespace taut
