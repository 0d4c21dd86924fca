#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "tests/bench/data_plane/measure.hpp"

namespace taut::bench {

/// The limits that the data plane is held against, measured in the same run.

/// Raw ZeroMQ, DEALER to ROUTER over TCP, between this process and the echo process at `address`:
/// messages of a small header frame and a payload, each acknowledged by a small one (push) or by
/// one of the same size (push+pull); buffers are reused.
[[nodiscard]] std::vector<Sample> raw_zmq(const std::string& address, std::uint64_t bytes,
                                          double seconds_each);

/// The other side of raw_zmq(): answers until it is told to end. Prints its address first.
void serve_raw_zmq();

/// One thread copying between two blocks: GB/s of payload.
[[nodiscard]] double memcpy_rate(std::uint64_t bytes);

/// One thread applying each update rule to memory, and a triad in place (a[i] = a[i] + s * b[i])
/// over as many bytes: GB/s of traffic. Each row: rule, its rate, the triad's.
struct RuleRate {
  std::string rule;
  double rule_rate = 0;
  double triad_rate = 0;
};
[[nodiscard]] std::vector<RuleRate> rule_rates(std::uint64_t bytes);

}  // namespace taut::bench
