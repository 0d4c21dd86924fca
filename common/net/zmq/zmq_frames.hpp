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

/// unread  counts `bytes` until the frame is sent; nullptr: no count, and small frames are copied
[[nodiscard]] zmq::message_t to_zmq(const Frame& frame, const UnreadBytes* unread = nullptr,
                                    std::uint64_t bytes = 0);

/// Passes the frames of a message to a socket, which sends all of them or none. Returns whether it
/// sends them. If the connection ends between two frames, the socket drops the frames it has and
/// waits for the end of the message, so that the rest is passed to it too: otherwise it would take
/// the next message for that rest.
/// has_begun  the socket has a frame of the message already, its routing id
/// frame_at   makes the message of a frame's index
template <class FrameAt>
[[nodiscard]] bool send_whole(zmq::socket_t& socket, std::size_t count, bool has_begun,
                              const FrameAt& frame_at) {
  bool is_sent = true;
  for (std::size_t i = 0; i < count; ++i) {
    zmq::message_t frame = frame_at(i);
    const bool more = i + 1 < count;
    const auto flags =
        zmq::send_flags::dontwait | (more ? zmq::send_flags::sndmore : zmq::send_flags::none);
    const bool is_taken = socket.send(frame, flags).has_value();
    if (!is_taken && !has_begun) return false;
    has_begun = true;
    is_sent = is_sent && is_taken;
  }
  return is_sent;
}

/// A frame that keeps ZeroMQ's message, whose bytes are not copied.
[[nodiscard]] Frame from_zmq(zmq::message_t&& message);

/// A property of a message, which libzmq's thread wrote.
[[nodiscard]] std::string property_of(zmq::message_t& message, const char* name);

/// The descriptor of the connection that a message came over; -1: unknown.
[[nodiscard]] int descriptor_of(zmq::message_t& message);

}  // namespace taut
