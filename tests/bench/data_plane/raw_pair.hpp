#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "tests/bench/data_plane/measure.hpp"

namespace taut::bench {

/// How a plain ZeroMQ program is written that the data plane is compared with.
struct RawWay {
  const char* name = "";
  // Messages under way, each in its own memory; 0: 32 MiB of them, at most 256.
  std::size_t depth = 0;
  bool adds = false;  // the receiver adds a message to its values before it answers
};

inline constexpr RawWay kRawMany{"raw ZeroMQ", 0, false};
inline constexpr RawWay kRawTen{"raw ZeroMQ, depth 10", 10, false};
/// A parameter server in its smallest form: what ours is divided by.
inline constexpr RawWay kRawAdding{"raw ZeroMQ, depth 10, adding", 10, true};
inline constexpr std::array kRawWays = {kRawMany, kRawTen, kRawAdding};

/// DEALER to ROUTER over TCP, between this process and serve_raw_zmq() at `address` in the process
/// `server`: messages of a small header frame and a payload, each acknowledged by a small one
/// (push) or by one of the same size (push+pull); buffers are reused.
/// Returns push, push+pull and, up to 4 KiB, the round trip.
[[nodiscard]] std::vector<Sample> raw_zmq(const std::string& address, int server,
                                          std::uint64_t bytes, double seconds_each,
                                          const RawWay& way);

/// The other side of raw_zmq(): answers until it is told to end. Prints its address first.
void serve_raw_zmq();

}  // namespace taut::bench
