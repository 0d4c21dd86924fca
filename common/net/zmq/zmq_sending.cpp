#include <fmt/format.h>

#include <algorithm>
#include <cerrno>

#include "common/check.hpp"
#include "common/net/zmq/zmq_frames.hpp"
#include "common/net/zmq/zmq_sockets.hpp"

namespace taut {

Result<void> ZmqSockets::send(PeerId to, Message message) {
  TAUT_CHECK(!message.frames.empty(), "a message has at least one frame");
  const auto refused = [&](int reason) -> Error {
    if (reason == EHOSTUNREACH) {
      callers_.note_closed(to);
      return make_error(ErrorCode::kNotFound, fmt::format("peer {} has disconnected", to.value()));
    }
    return make_error(ErrorCode::kUnavailable,
                      fmt::format("the queue to peer {} is full", to.value()));
  };
  const auto dealer_to =
      std::ranges::find_if(dealers_, [to](const auto& dealer) { return dealer->peer == to; });
  const ZmqCaller* const caller_to = callers_.find(to);
  if (dealer_to != dealers_.end() && (*dealer_to)->token) {
    message.frames.insert(message.frames.begin(), (*dealer_to)->token->request());
  } else if (dealer_to == dealers_.end() && caller_to != nullptr && caller_to->proved) {
    message.frames.insert(message.frames.begin(), caller_to->proved->answer);
  }
  // A message is counted with its largest frame; a small one is bounded by the queue's length.
  std::uint64_t bytes = 0;
  for (const Frame& frame : message.frames) bytes += frame.size();
  const auto largest = static_cast<std::size_t>(
      std::ranges::max_element(message.frames, {}, &Frame::size) - message.frames.begin());
  const auto send_frames = [&](zmq::socket_t& socket, const UnreadBytes* unread) -> Result<void> {
    const bool counts = unread != nullptr && bytes >= kCopyBelow;
    const auto frame_at = [&](std::size_t i) {
      return counts && i == largest ? to_zmq(message.frames[i], unread, bytes)
                                    : to_zmq(message.frames[i]);
    };
    const bool has_routing_id = unread != nullptr;
    if (send_whole(socket, message.frames.size(), has_routing_id, frame_at)) return ok();
    return refused(EAGAIN);
  };

  try {
    if (dealer_to != dealers_.end()) return send_frames((*dealer_to)->socket, nullptr);
    if (caller_to == nullptr) return refused(EHOSTUNREACH);
    const ZmqCaller& caller = *caller_to;
    // Nothing is sent to a key that was revoked meanwhile.
    if (!security_.is_insecure() && !holder_of(caller.key)) {
      callers_.forget(to);
      return refused(EHOSTUNREACH);
    }
    const std::uint64_t waiting = caller.unread.bytes();
    if (waiting > 0 && waiting + bytes > limits_.unread.value()) return refused(EAGAIN);
    zmq::message_t routing_id(caller.routing_id.data(), caller.routing_id.size());
    const auto flags = zmq::send_flags::dontwait | zmq::send_flags::sndmore;
    if (!router_.send(routing_id, flags)) return refused(EAGAIN);
    return send_frames(router_, &caller.unread);
  } catch (const zmq::error_t& failure) {
    return refused(failure.num());
  }
}

}  // namespace taut
