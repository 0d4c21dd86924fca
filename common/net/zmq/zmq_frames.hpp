#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <zmq.hpp>

#include "common/net/message.hpp"
#include "common/net/zmq/zmq_callers.hpp"

namespace taut {

// Below this a copy is cheaper than the bookkeeping of a shared frame.
inline constexpr std::size_t kCopyBelow = 512;

/// unread  to be counted in, with `bytes`; nullptr: nothing is counted, and small frames are copied
[[nodiscard]] zmq::message_t to_zmq(const Frame& frame, const UnreadBytes* unread = nullptr,
                                    std::uint64_t bytes = 0);

/// A frame that keeps ZeroMQ's message, whose bytes are not copied.
[[nodiscard]] Frame from_zmq(zmq::message_t&& message);

/// A property of a message, which libzmq's thread wrote.
[[nodiscard]] std::string property_of(zmq::message_t& message, const char* name);

/// The descriptor of the connection that a message came over; -1: unknown.
[[nodiscard]] int descriptor_of(zmq::message_t& message);

}  // namespace taut
