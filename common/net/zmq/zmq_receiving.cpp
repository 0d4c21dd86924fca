#include <unistd.h>

#include <bit>
#include <cerrno>
#include <functional>

#include "common/log.hpp"
#include "common/net/zmq/zmq_frames.hpp"
#include "common/net/zmq/zmq_sockets.hpp"

namespace taut {

/// What the first frame of a message proves; nullopt if nothing. Its key must be the one that the
/// connection's handshake proved.
std::optional<ProvedSecret> ZmqSockets::check(const std::string& routing_id, const std::string& key,
                                              const Frame& request) const {
  // Most messages have the secret of the one before.
  const ZmqCaller* known = callers_.find(routing_id);
  if (known != nullptr && known->key == key && known->proved &&
      same_secret(known->proved->request, request)) {
    return known->proved;
  }
  const auto scope = tokens_->check(request.bytes());
  if (!scope || scope->public_key != key) return std::nullopt;
  return ProvedSecret{Frame::copy_of(request.bytes()), std::make_shared<const TokenScope>(*scope),
                      tokens_->make(*scope).answer()};
}

/// The 1st, 2nd, 4th, 8th ...: a peer cannot fill the log.
void ZmqSockets::note_unadmitted() {
  if (!std::has_single_bit(++unadmitted_)) return;
  log::warn(
      "dropped a message with a key or a secret that is not, or no longer, admitted ({} "
      "so far)",
      unadmitted_);
}

std::optional<Incoming> ZmqSockets::receive_from(zmq::socket_t& socket, const Dealer* dealer) {
  zmq::message_t part;
  if (!socket.recv(part, zmq::recv_flags::dontwait)) return std::nullopt;
  Incoming incoming;
  bool is_admitted = true;
  bool has_parts = true;
  int descriptor = -1;  // of a connection to this side
  std::string key;      // that its handshake proved
  /// Takes the secret, which is the first frame; the rest is the message.
  const auto take_secret = [&]() -> Frame {
    has_parts = part.more();
    Frame secret = from_zmq(std::move(part));
    part = zmq::message_t();
    if (has_parts && !socket.recv(part, zmq::recv_flags::none)) has_parts = false;
    return secret;
  };
  if (dealer != nullptr) {
    incoming.from = dealer->peer;
    // Only a process with the cluster's secret gets through this side's handshake, or makes the
    // secret of an answer.
    if (!security_.is_insecure()) incoming.sender = cluster_;
    if (dealer->token) is_admitted = same_secret(take_secret(), dealer->token->answer());
  } else {
    const std::string routing_id = part.to_string();
    if (!part.more()) return std::nullopt;
    if (!socket.recv(part, zmq::recv_flags::none)) return std::nullopt;
    descriptor = descriptor_of(part);
    std::optional<ProvedSecret> proved;
    if (!security_.is_insecure()) {
      // The key that the handshake proved and the handler confirmed, a property of each frame but
      // the routing id. It is looked up for each message, since an open connection never
      // repeats its handshake.
      key = property_of(part, "User-Id");
      incoming.sender = holder_of(key);
      is_admitted = incoming.sender != nullptr;
      if (is_plain_) {
        const Frame request = take_secret();
        if (is_admitted) proved = check(routing_id, key, request);
        is_admitted = proved.has_value();
        if (proved) incoming.scope = proved->scope;
      }
    }
    if (is_admitted) {
      const auto make_peer = [this] { return PeerId(next_peer_++); };
      incoming.from = callers_.hear({routing_id, key, std::move(proved), descriptor}, make_peer);
    }
  }
  bool is_kept = is_admitted;
  if (has_parts) {
    const std::optional<int> accepted =
        dealer == nullptr ? std::optional(descriptor) : std::nullopt;
    is_kept = take_frames(socket, std::move(part), accepted, is_admitted, incoming.message);
  }
  if (!is_admitted) note_unadmitted();
  if (is_admitted) watch_.note_received(descriptor, std::hash<std::string>()(key));
  if (!is_kept) return std::nullopt;
  return incoming;
}

/// Reads a message from its part `part` on. Returns false if it is dropped; its rest is still read,
/// so that memory stays bounded.
/// accepted  descriptor of a connection to this side, which is closed beyond the limit
bool ZmqSockets::take_frames(zmq::socket_t& socket, zmq::message_t part,
                             std::optional<int> accepted, bool is_kept, Message& message) {
  const bool is_limited = accepted && has_byte_limit();
  std::uint64_t bytes = 0;
  while (true) {
    const bool more = part.more();
    bytes += part.size();
    if (is_kept && is_limited && bytes > limits_.frame.value()) {
      is_kept = false;
      watch_.close_connection(*accepted);
    }
    if (message.frames.size() == limits_.frames) is_kept = false;
    if (is_kept) message.frames.push_back(from_zmq(std::move(part)));
    if (!is_kept) message.frames.clear();
    if (!more) return is_kept;
    part = zmq::message_t();
    if (!socket.recv(part, zmq::recv_flags::none)) return is_kept;
  }
}

std::optional<Incoming> ZmqSockets::try_receive() {
  const std::size_t sockets = dealers_.size() + 1;
  for (std::size_t i = 0; i < sockets; ++i) {
    const std::size_t which = (turn_ + i) % sockets;
    std::optional<Incoming> incoming;
    try {
      if (which < dealers_.size()) {
        incoming = receive_from(dealers_[which]->socket, dealers_[which].get());
      } else if (router_) {
        incoming = receive_from(router_, nullptr);
      }
    } catch (const zmq::error_t& failure) {
      if (failure.num() != EINTR) throw;
    }
    if (incoming) {
      turn_ = which + 1;
      return incoming;
    }
  }
  return std::nullopt;
}

std::optional<Incoming> ZmqSockets::receive(Duration wait) {
  if (auto incoming = try_receive()) return incoming;
  const TimePoint deadline = steady_now() + wait;
  while (true) {
    std::vector<zmq::pollitem_t> items;
    items.push_back({nullptr, wake_, ZMQ_POLLIN, 0});
    if (router_) items.push_back({router_.handle(), 0, ZMQ_POLLIN, 0});
    for (const auto& dealer : dealers_) {
      items.push_back({dealer->socket.handle(), 0, ZMQ_POLLIN, 0});
      items.push_back({dealer->handshakes.handle(), 0, ZMQ_POLLIN, 0});
    }
    if (other_ >= 0) items.push_back({nullptr, other_, ZMQ_POLLIN, 0});
    const Duration left = deadline - steady_now();
    const int ready = zmq_poll(items.data(), static_cast<int>(items.size()), to_milliseconds(left));
    if (ready < 0 && errno == EINTR) return std::nullopt;
    if ((items[0].revents & ZMQ_POLLIN) != 0) {
      std::uint64_t count = 0;
      [[maybe_unused]] const ssize_t drained = read(wake_, &count, sizeof count);
      return try_receive();
    }
    if (auto incoming = try_receive()) return incoming;
    bool is_refused = false;
    for (const auto& dealer : dealers_) is_refused |= dealer->handshakes.read();
    const bool is_others = other_ >= 0 && (items.back().revents & ZMQ_POLLIN) != 0;
    if (is_refused || is_others || steady_now() >= deadline) return std::nullopt;
  }
}

}  // namespace taut
