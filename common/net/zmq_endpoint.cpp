#include "common/net/zmq_endpoint.hpp"

#include <fmt/format.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <stdexcept>
#include <string>
#include <unordered_map>
#include <zmq.hpp>

#include "common/check.hpp"

namespace taut {
namespace {

// Below this a copy is cheaper than the bookkeeping of a shared frame.
constexpr std::size_t kCopyBelow = 512;

// ZeroMQ calls this from its I/O thread once the bytes are on the wire.
void release_owner(void* /*bytes*/, void* owner) noexcept {
  delete static_cast<std::shared_ptr<const void>*>(owner);
}

zmq::message_t to_zmq(const Frame& frame) {
  if (frame.size() < kCopyBelow) return {frame.bytes().data(), frame.size()};
  auto owner = std::make_unique<std::shared_ptr<const void>>(frame.owner());
  zmq::message_t message(const_cast<std::byte*>(frame.bytes().data()), frame.size(), release_owner,
                         owner.get());
  [[maybe_unused]] const auto* const kept = owner.release();
  return message;
}

Frame from_zmq(zmq::message_t&& message) {
  auto owner = std::make_shared<zmq::message_t>(std::move(message));
  const std::span<const std::byte> bytes(static_cast<const std::byte*>(owner->data()),
                                         owner->size());
  return {std::move(owner), bytes};
}

/// IPv6 only where an address says so: otherwise IPv4 addresses would be written as mapped ones.
void allow_ipv6(zmq::socket_t& socket, const std::string& address) {
  if (address.starts_with('[')) socket.set(zmq::sockopt::ipv6, 1);
}

int to_milliseconds(Duration wait) {
  if (wait <= Duration::zero()) return 0;
  const auto rounded = std::chrono::ceil<std::chrono::milliseconds>(wait).count();
  return static_cast<int>(std::min<std::int64_t>(rounded, 1'000'000'000));
}

/// Everything received from one socket: a listening ROUTER, or one DEALER for each connection.
class ZmqEndpoint final : public Endpoint {
 public:
  ZmqEndpoint(zmq::context_t& context, EndpointLimits limits)
      : context_(context), limits_(limits), wake_(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {
    if (wake_ < 0) throw std::runtime_error("eventfd: no file descriptors left");
  }
  ~ZmqEndpoint() override { close(wake_); }
  ZmqEndpoint(const ZmqEndpoint&) = delete;
  ZmqEndpoint& operator=(const ZmqEndpoint&) = delete;

  Result<std::string> bind(const std::string& address) override;
  Result<PeerId> connect(const std::string& address) override;
  void disconnect(PeerId peer) override;
  Result<void> send(PeerId to, Message message) override;
  std::optional<Incoming> receive(Duration wait) override;
  void wake() override {
    const std::uint64_t one = 1;
    // A full counter means that a wake-up is pending already.
    [[maybe_unused]] const ssize_t written = write(wake_, &one, sizeof one);
  }

 private:
  struct Dealer {
    PeerId peer;
    zmq::socket_t socket;
  };
  // What the ROUTER remembers of peers; the oldest is forgotten beyond this.
  static constexpr std::size_t kKnownPeers = 65536;

  void set_limits(zmq::socket_t& socket) const;
  PeerId peer_of(const std::string& routing_id);
  void forget(PeerId peer);
  std::optional<Incoming> try_receive();
  std::optional<Incoming> receive_from(zmq::socket_t& socket, std::optional<PeerId> dealer);

  zmq::context_t& context_;
  const EndpointLimits limits_;
  const int wake_;
  zmq::socket_t router_;
  std::vector<Dealer> dealers_;
  std::uint64_t next_peer_ = 1;
  std::uint64_t oldest_peer_ = 1;
  std::unordered_map<std::string, PeerId> peers_by_routing_id_;
  std::unordered_map<PeerId, std::string> routing_ids_;
  std::size_t turn_ = 0;  // the socket that is polled first, so that none starves
};

void ZmqEndpoint::set_limits(zmq::socket_t& socket) const {
  socket.set(zmq::sockopt::linger, 0);
  socket.set(zmq::sockopt::sndhwm, static_cast<int>(limits_.queued_messages));
  socket.set(zmq::sockopt::rcvhwm, static_cast<int>(limits_.queued_messages));
  socket.set(zmq::sockopt::maxmsgsize, static_cast<std::int64_t>(limits_.frame.value()));
  socket.set(zmq::sockopt::reconnect_ivl, 50);
  socket.set(zmq::sockopt::reconnect_ivl_max, 1000);
}

Result<std::string> ZmqEndpoint::bind(const std::string& address) {
  try {
    if (!router_) {
      router_ = zmq::socket_t(context_, zmq::socket_type::router);
      set_limits(router_);
      router_.set(zmq::sockopt::router_mandatory, 1);
    }
    allow_ipv6(router_, address);
    // "tcp://host:*" is ZeroMQ's way to let the system choose.
    std::string place = address;
    if (place.size() > 2 && place.ends_with(":0")) place.replace(place.size() - 1, 1, "*");
    router_.bind("tcp://" + place);
    return router_.get(zmq::sockopt::last_endpoint).substr(std::string("tcp://").size());
  } catch (const zmq::error_t& failure) {
    if (failure.num() == EADDRINUSE) {
      return make_error(ErrorCode::kExists,
                        fmt::format("{}: the port is in use by another process", address));
    }
    return invalid(fmt::format("{}: cannot listen there: {}", address, failure.what()));
  }
}

Result<PeerId> ZmqEndpoint::connect(const std::string& address) {
  try {
    zmq::socket_t socket(context_, zmq::socket_type::dealer);
    set_limits(socket);
    allow_ipv6(socket, address);
    socket.connect("tcp://" + address);
    const PeerId peer(next_peer_++);
    dealers_.push_back({peer, std::move(socket)});
    return peer;
  } catch (const zmq::error_t& failure) {
    return invalid(fmt::format("{}: cannot connect there: {}", address, failure.what()));
  }
}

void ZmqEndpoint::disconnect(PeerId peer) {
  std::erase_if(dealers_, [peer](const Dealer& dealer) { return dealer.peer == peer; });
}

PeerId ZmqEndpoint::peer_of(const std::string& routing_id) {
  const auto known = peers_by_routing_id_.find(routing_id);
  if (known != peers_by_routing_id_.end()) return known->second;
  const PeerId peer(next_peer_++);
  peers_by_routing_id_.emplace(routing_id, peer);
  routing_ids_.emplace(peer, routing_id);
  while (routing_ids_.size() > kKnownPeers) forget(PeerId(oldest_peer_++));
  return peer;
}

void ZmqEndpoint::forget(PeerId peer) {
  const auto found = routing_ids_.find(peer);
  if (found == routing_ids_.end()) return;
  peers_by_routing_id_.erase(found->second);
  routing_ids_.erase(found);
}

Result<void> ZmqEndpoint::send(PeerId to, Message message) {
  TAUT_CHECK(!message.frames.empty(), "a message has at least one frame");
  const auto refused = [&](int reason) -> Error {
    if (reason == EHOSTUNREACH) {
      forget(to);
      return make_error(ErrorCode::kNotFound, fmt::format("peer {} has disconnected", to.value()));
    }
    return make_error(ErrorCode::kUnavailable,
                      fmt::format("the queue to peer {} is full", to.value()));
  };
  const auto send_frames = [&](zmq::socket_t& socket, bool begun) -> Result<void> {
    for (std::size_t i = 0; i < message.frames.size(); ++i) {
      zmq::message_t frame = to_zmq(message.frames[i]);
      const bool more = i + 1 < message.frames.size();
      const auto flags =
          zmq::send_flags::dontwait | (more ? zmq::send_flags::sndmore : zmq::send_flags::none);
      if (!socket.send(frame, flags)) {
        TAUT_CHECK(!begun, "ZeroMQ accepted a part of a message");
        return refused(EAGAIN);
      }
      begun = true;
    }
    return ok();
  };

  try {
    for (Dealer& dealer : dealers_) {
      if (dealer.peer == to) return send_frames(dealer.socket, false);
    }
    const auto found = routing_ids_.find(to);
    if (found == routing_ids_.end()) return refused(EHOSTUNREACH);
    zmq::message_t routing_id(found->second.data(), found->second.size());
    const auto flags = zmq::send_flags::dontwait | zmq::send_flags::sndmore;
    if (!router_.send(routing_id, flags)) return refused(EAGAIN);
    return send_frames(router_, true);
  } catch (const zmq::error_t& failure) {
    return refused(failure.num());
  }
}

std::optional<Incoming> ZmqEndpoint::receive_from(zmq::socket_t& socket,
                                                  std::optional<PeerId> dealer) {
  zmq::message_t part;
  if (!socket.recv(part, zmq::recv_flags::dontwait)) return std::nullopt;
  Incoming incoming;
  if (dealer) {
    incoming.from = *dealer;
  } else {
    incoming.from = peer_of(part.to_string());
    if (!part.more()) return std::nullopt;
    if (!socket.recv(part, zmq::recv_flags::none)) return std::nullopt;
  }
  bool too_many = false;
  while (true) {
    const bool more = part.more();
    if (incoming.message.frames.size() == limits_.frames) {
      // The rest is read and dropped, so that memory stays bounded.
      incoming.message.frames.clear();
      too_many = true;
    }
    if (!too_many) incoming.message.frames.push_back(from_zmq(std::move(part)));
    if (!more) break;
    part = zmq::message_t();
    if (!socket.recv(part, zmq::recv_flags::none)) break;
  }
  if (too_many) return std::nullopt;
  return incoming;
}

std::optional<Incoming> ZmqEndpoint::try_receive() {
  const std::size_t sockets = dealers_.size() + 1;
  for (std::size_t i = 0; i < sockets; ++i) {
    const std::size_t which = (turn_ + i) % sockets;
    std::optional<Incoming> incoming;
    try {
      if (which < dealers_.size()) {
        incoming = receive_from(dealers_[which].socket, dealers_[which].peer);
      } else if (router_) {
        incoming = receive_from(router_, std::nullopt);
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

std::optional<Incoming> ZmqEndpoint::receive(Duration wait) {
  if (auto incoming = try_receive()) return incoming;
  const TimePoint deadline = steady_now() + wait;
  while (true) {
    std::vector<zmq::pollitem_t> items;
    items.push_back({nullptr, wake_, ZMQ_POLLIN, 0});
    if (router_) items.push_back({router_.handle(), 0, ZMQ_POLLIN, 0});
    for (Dealer& dealer : dealers_) items.push_back({dealer.socket.handle(), 0, ZMQ_POLLIN, 0});
    const Duration left = deadline - steady_now();
    const int ready = zmq_poll(items.data(), static_cast<int>(items.size()), to_milliseconds(left));
    if (ready < 0 && errno == EINTR) return std::nullopt;
    if ((items[0].revents & ZMQ_POLLIN) != 0) {
      std::uint64_t count = 0;
      [[maybe_unused]] const ssize_t drained = read(wake_, &count, sizeof count);
      return try_receive();
    }
    if (auto incoming = try_receive()) return incoming;
    if (steady_now() >= deadline) return std::nullopt;
  }
}

}  // namespace

struct ZmqContext::State {
  explicit State(int io_threads) : context(io_threads) {}
  zmq::context_t context;
};

ZmqContext::ZmqContext(int io_threads) : state_(std::make_unique<State>(io_threads)) {}
ZmqContext::~ZmqContext() = default;

std::unique_ptr<Endpoint> ZmqContext::make_endpoint(EndpointLimits limits) {
  return std::make_unique<ZmqEndpoint>(state_->context, limits);
}

}  // namespace taut
