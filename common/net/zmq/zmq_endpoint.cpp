#include "common/net/zmq/zmq_endpoint.hpp"

#include <fmt/format.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <bit>
#include <cerrno>
#include <charconv>
#include <limits>
#include <stdexcept>
#include <string>
#include <zmq.hpp>

#include "common/check.hpp"
#include "common/log.hpp"
#include "common/net/ucx/two_wires.hpp"
#include "common/net/zmq/connection_watch.hpp"
#include "common/net/zmq/handshake_watch.hpp"
#include "common/net/zmq/zap_handler.hpp"
#include "common/net/zmq/zmq_callers.hpp"
#include "common/thread_sanitizer.hpp"

namespace taut {
namespace {

// Below this a copy is cheaper than the bookkeeping of a shared frame.
constexpr std::size_t kCopyBelow = 512;
// Of ZMQ_ZAP_ENFORCE_DOMAIN, whose name is a draft of libzmq 4.3 and whose number is not: without a
// handler no handshake succeeds.
constexpr int kEnforceDomain = 93;
constexpr const char* kDomain = "tautline";
// A peer that connects and sends nothing takes a file descriptor for so long.
constexpr Duration kHandshakeLimit = std::chrono::seconds(5);
// A loopback handshake takes milliseconds; a machine may be busy.
constexpr Duration kProbeWait = std::chrono::seconds(10);

/// What a frame that ZeroMQ has not sent yet keeps.
struct Queued {
  Queued(std::shared_ptr<const void> what, const UnreadBytes* whose, std::uint64_t how_many)
      : owner(std::move(what)), bytes(how_many) {
    if (whose != nullptr) unread = *whose;
    if (unread) unread->add(bytes);
  }
  ~Queued() {
    if (unread) unread->remove(bytes);
  }
  Queued(const Queued&) = delete;
  Queued& operator=(const Queued&) = delete;

  const std::shared_ptr<const void> owner;
  std::optional<UnreadBytes> unread;
  const std::uint64_t bytes;
};

// ZeroMQ calls this from its I/O thread once the bytes are on the wire.
void release_owner(void* /*bytes*/, void* queued) noexcept {
  thread_sanitizer::acquire(queued);
  delete static_cast<Queued*>(queued);
}

/// unread  to be counted in, with `bytes`; nullptr: nothing is counted, and small frames are copied
zmq::message_t to_zmq(const Frame& frame, const UnreadBytes* unread = nullptr,
                      std::uint64_t bytes = 0) {
  if (unread == nullptr && frame.size() < kCopyBelow) {
    return {frame.bytes().data(), frame.size()};
  }
  auto owner = std::make_unique<Queued>(frame.owner(), unread, bytes);
  zmq::message_t message(const_cast<std::byte*>(frame.bytes().data()), frame.size(), release_owner,
                         owner.get());
  const auto* const kept = owner.release();
  thread_sanitizer::release(kept);
  return message;
}

/// A property of a message, which libzmq's thread wrote.
TAUT_UNSEEN_BY_THREAD_SANITIZER std::string property_of(zmq::message_t& message, const char* name) {
  std::string copy;
  const char* text = zmq_msg_gets(message.handle(), name);
  while (text != nullptr && *text != '\0') copy.push_back(*text++);
  return copy;
}

/// The descriptor of the connection that a message came over; -1: unknown.
int descriptor_of(zmq::message_t& message) {
  const std::string text = property_of(message, "__fd");  // what ZMQ_SRCFD reads
  int descriptor = -1;
  std::from_chars(text.data(), text.data() + text.size(), descriptor);
  return descriptor;
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

/// Messages of one peer that may have arrived and wait.
std::size_t waiting_messages(const EndpointLimits& limits) {
  return std::min(limits.queued_messages, limits.arrived_messages);
}

/// Everything received from one socket: a listening ROUTER, or one DEALER for each connection.
class ZmqEndpoint final : public WaitingEndpoint {
 public:
  /// tokens  of a plain data plane, of a process that listens; outlives this, as the watch does
  ZmqEndpoint(zmq::context_t& context, ConnectionWatch& watch, const Security& security,
              const std::optional<TokenKey>& tokens, EndpointLimits limits)
      : context_(context),
        watch_(watch),
        security_(security),
        tokens_(tokens),
        limits_(limits),
        wake_(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)),
        callers_(limits.peers) {
    if (wake_ < 0) throw std::runtime_error("eventfd: no file descriptors left");
  }
  ~ZmqEndpoint() override {
    close_router();
    close(wake_);
  }
  ZmqEndpoint(const ZmqEndpoint&) = delete;
  ZmqEndpoint& operator=(const ZmqEndpoint&) = delete;

  void also_wait_for(int descriptor) override { other_ = descriptor; }
  void use_token(const std::optional<DataToken>& own) override { token_ = own; }
  void expect_key(const std::string& public_key) override { expected_key_ = public_key; }
  Result<std::string> bind(const std::string& address) override;
  Result<PeerId> connect(const std::string& address) override;
  void disconnect(PeerId peer) override;
  Result<void> send(PeerId to, Message message) override;
  std::uint64_t unread(PeerId peer) const override;
  std::string key_of(PeerId peer) const override;
  std::uint64_t unadmitted() const override { return unadmitted_; }
  std::optional<Refusal> refusal(PeerId peer) const override;
  std::vector<PeerId> take_closed() override;
  std::optional<Incoming> receive(Duration wait) override;
  void wake() override {
    const std::uint64_t one = 1;
    // A full counter means that a wake-up is pending already.
    [[maybe_unused]] const ssize_t written = write(wake_, &one, sizeof one);
  }

 private:
  struct Dealer {
    Dealer(zmq::context_t& context, Proof proof, std::optional<DataToken> its_token)
        : socket(context, zmq::socket_type::dealer),
          handshakes(context, socket, proof),
          token(std::move(its_token)) {}
    PeerId peer;
    zmq::socket_t socket;
    HandshakeWatch handshakes;             // ends before the socket
    const std::optional<DataToken> token;  // nullopt: this connection is none of a plain plane
  };
  void set_limits(zmq::socket_t& socket) const;
  [[nodiscard]] Result<void> open_router();
  void close_router();
  [[nodiscard]] bool has_byte_limit() const;
  [[nodiscard]] Result<void> probe(const std::string& place) const;
  [[nodiscard]] std::optional<ProvedSecret> check(const std::string& routing_id,
                                                  const std::string& key,
                                                  const Frame& request) const;
  std::optional<Incoming> try_receive();
  std::optional<Incoming> receive_from(zmq::socket_t& socket, const Dealer* dealer);
  bool take_frames(zmq::socket_t& socket, zmq::message_t part, std::optional<int> accepted,
                   bool is_kept, Message& message);
  [[nodiscard]] std::shared_ptr<const Identity> holder_of(const std::string& key) const;
  void note_unadmitted();

  zmq::context_t& context_;
  ConnectionWatch& watch_;
  const Security& security_;
  const std::optional<TokenKey>& tokens_;
  std::optional<DataToken> token_;  // of connections that are made from now on
  std::string expected_key_;        // of the other sides; empty: the cluster's
  bool is_plain_ = false;           // the listening socket
  // Whoever this side connected to, in a cluster with keys.
  const std::shared_ptr<const Identity> cluster_ =
      std::make_shared<Identity>(Identity{"the cluster", KeyRole::kServer});
  const EndpointLimits limits_;
  const int wake_;
  int other_ = -1;  // a descriptor that is waited for too; -1: none
  zmq::socket_t router_;
  std::vector<std::unique_ptr<Dealer>> dealers_;
  std::uint64_t next_peer_ = 1;
  ZmqCallers callers_;
  std::uint64_t unadmitted_ = 0;  // messages
  std::size_t turn_ = 0;          // the socket that is polled first, so that none starves
};

void ZmqEndpoint::set_limits(zmq::socket_t& socket) const {
  socket.set(zmq::sockopt::linger, to_milliseconds(limits_.linger));
  socket.set(zmq::sockopt::sndhwm, static_cast<int>(limits_.queued_messages));
  socket.set(zmq::sockopt::rcvhwm, static_cast<int>(limits_.queued_messages));
  socket.set(zmq::sockopt::maxmsgsize, static_cast<std::int64_t>(limits_.frame.value()));
  socket.set(zmq::sockopt::handshake_ivl, to_milliseconds(kHandshakeLimit));
  // A host that is gone without a word leaves connections that no side would close.
  socket.set(zmq::sockopt::tcp_keepalive, 1);
  socket.set(zmq::sockopt::tcp_keepalive_idle, 60);
  socket.set(zmq::sockopt::tcp_keepalive_intvl, 15);
  socket.set(zmq::sockopt::tcp_keepalive_cnt, 4);
  socket.set(zmq::sockopt::reconnect_ivl, 50);
  socket.set(zmq::sockopt::reconnect_ivl_max, 1000);
}

Result<void> ZmqEndpoint::open_router() {
  if (router_) return ok();
  zmq::socket_t router(context_, zmq::socket_type::router);
  set_limits(router);
  // Of those that this side connects to, no limit is needed: they have the cluster's secret.
  router.set(zmq::sockopt::rcvhwm, static_cast<int>(waiting_messages(limits_)));
  router.set(zmq::sockopt::router_mandatory, 1);
  if (!security_.is_insecure()) {
    is_plain_ = token_.has_value();
    const bool can_listen = security_.admission && !security_.cluster_secret.empty();
    if (!can_listen || (is_plain_ && !tokens_)) {
      return invalid(
          "this key may not listen; make one that may with \"tautline keys add NAME --role "
          "server\"");
    }
    if (is_plain_) {
      router.set(zmq::sockopt::plain_server, 1);
    } else {
      router.set(zmq::sockopt::curve_server, 1);
      router.set(zmq::sockopt::curve_secretkey, security_.cluster_secret);
    }
    router.set(zmq::sockopt::zap_domain, kDomain);
    const int enforce = 1;
    if (zmq_setsockopt(router.handle(), kEnforceDomain, &enforce, sizeof enforce) != 0) {
      throw zmq::error_t();
    }
  }
  // Nor is more taken of a message that has not ended.
  watch_.add(router,
             has_byte_limit() ? limits_.frame.value() : std::numeric_limits<std::uint64_t>::max());
  router_ = std::move(router);
  return ok();
}

void ZmqEndpoint::close_router() {
  if (!router_) return;
  watch_.remove(router_);
  router_.close();
}

/// Whether messages that arrive are limited in bytes, where few of them may wait: each to what one
/// frame may have, in however many it comes.
bool ZmqEndpoint::has_byte_limit() const {
  return limits_.arrived_messages < limits_.queued_messages;
}

/// Tries to get in with a key that was not admitted, or with a secret of another cluster.
Result<void> ZmqEndpoint::probe(const std::string& place) const {
  if (security_.is_insecure()) return ok();
  TAUT_TRY(const bool is_open, is_plain_
                                   ? admits_strangers(place, kProbeWait)
                                   : admits_strangers(place, security_.cluster_key, kProbeWait));
  if (!is_open) return ok();
  return make_error(ErrorCode::kUnavailable,
                    fmt::format("{}: a random {} got in, so keys protect nothing here and nothing "
                                "is served: this libzmq does not ask who is admitted",
                                place, is_plain_ ? "secret" : "key"));
}

Result<std::string> ZmqEndpoint::bind(const std::string& address) {
  try {
    TAUT_TRY(open_router());
    allow_ipv6(router_, address);
    // "tcp://host:*" is ZeroMQ's way to let the system choose.
    std::string place = address;
    if (place.size() > 2 && place.ends_with(":0")) place.replace(place.size() - 1, 1, "*");
    router_.bind("tcp://" + place);
    const auto bound = router_.get(zmq::sockopt::last_endpoint);
    if (auto closed = probe(bound); !closed) {
      close_router();
      return closed.error();
    }
    return bound.substr(std::string("tcp://").size());
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
    const std::optional<DataToken> token = security_.is_insecure() ? std::nullopt : token_;
    const Proof proof = token                     ? Proof::kSecret
                        : security_.is_insecure() ? Proof::kNone
                                                  : Proof::kKey;
    auto dealer = std::make_unique<Dealer>(context_, proof, token);
    zmq::socket_t& socket = dealer->socket;
    set_limits(socket);
    if (token) {
      show_secret(socket, token->request());
    } else if (!security_.is_insecure()) {
      socket.set(zmq::sockopt::curve_serverkey,
                 expected_key_.empty() ? security_.cluster_key : expected_key_);
      socket.set(zmq::sockopt::curve_publickey, security_.own.public_key);
      socket.set(zmq::sockopt::curve_secretkey, security_.own.secret_key);
    }
    allow_ipv6(socket, address);
    socket.connect("tcp://" + address);
    const PeerId peer(next_peer_++);
    dealer->peer = peer;
    dealers_.push_back(std::move(dealer));
    return peer;
  } catch (const zmq::error_t& failure) {
    return invalid(fmt::format("{}: cannot connect there: {}", address, failure.what()));
  }
}

std::uint64_t ZmqEndpoint::unread(PeerId peer) const {
  const ZmqCaller* caller = callers_.find(peer);
  return caller == nullptr ? 0 : caller->unread.bytes();
}

std::string ZmqEndpoint::key_of(PeerId peer) const {
  const ZmqCaller* caller = callers_.find(peer);
  return caller == nullptr ? std::string() : caller->key;
}

std::optional<Refusal> ZmqEndpoint::refusal(PeerId peer) const {
  for (const auto& dealer : dealers_) {
    if (dealer->peer == peer) return dealer->handshakes.refusal();
  }
  return std::nullopt;
}

void ZmqEndpoint::disconnect(PeerId peer) {
  std::erase_if(dealers_, [peer](const auto& dealer) { return dealer->peer == peer; });
}

/// What the first frame of a message proves; nullopt: nothing. Whose key the handshake proved has
/// each of the connection's messages.
std::optional<ProvedSecret> ZmqEndpoint::check(const std::string& routing_id,
                                               const std::string& key, const Frame& request) const {
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

std::vector<PeerId> ZmqEndpoint::take_closed() {
  return router_ ? callers_.take_closed(watch_.take_ended(router_)) : std::vector<PeerId>();
}

std::shared_ptr<const Identity> ZmqEndpoint::holder_of(const std::string& key) const {
  return key.empty() ? nullptr : security_.admission->find(key);
}

/// The 1st, 2nd, 4th, 8th ...: a peer cannot fill the log.
void ZmqEndpoint::note_unadmitted() {
  if (!std::has_single_bit(++unadmitted_)) return;
  log::warn(
      "dropped a message with a key or a secret that is not, or no longer, admitted ({} "
      "so far)",
      unadmitted_);
}

Result<void> ZmqEndpoint::send(PeerId to, Message message) {
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
    bool begun = unread != nullptr;  // the routing id has been sent
    const bool counts = unread != nullptr && bytes >= kCopyBelow;
    for (std::size_t i = 0; i < message.frames.size(); ++i) {
      zmq::message_t frame = counts && i == largest ? to_zmq(message.frames[i], unread, bytes)
                                                    : to_zmq(message.frames[i]);
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

std::optional<Incoming> ZmqEndpoint::receive_from(zmq::socket_t& socket, const Dealer* dealer) {
  zmq::message_t part;
  if (!socket.recv(part, zmq::recv_flags::dontwait)) return std::nullopt;
  Incoming incoming;
  bool is_admitted = true;
  bool has_parts = true;
  int descriptor = -1;  // of a connection to this side
  std::string key;      // that its handshake proved
  /// The secret that is the first frame; what follows it is the message.
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
      // the routing id. It is looked up for each message, since a connection that is open never
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

/// Reads a message from its part `part` on. False: it is dropped; its rest is read nevertheless, so
/// that memory stays bounded.
/// accepted  descriptor of a connection to this side, which is closed beyond the limit
bool ZmqEndpoint::take_frames(zmq::socket_t& socket, zmq::message_t part,
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

std::optional<Incoming> ZmqEndpoint::try_receive() {
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

std::optional<Incoming> ZmqEndpoint::receive(Duration wait) {
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

}  // namespace

struct ZmqContext::State {
  State(Security what, int io_threads)
      : security(std::move(what)), context(io_threads), watch(context) {
    if (security.is_insecure() || !security.admission) return;
    security.admission->refresh();
    if (security.plain_data && !security.cluster_secret.empty()) {
      tokens.emplace(security.cluster_secret);
    }
    handler = std::make_unique<ZapHandler>(context.handle(), security.admission, tokens);
  }
  const Security security;
  std::optional<TokenKey> tokens;
  zmq::context_t context;
  ConnectionWatch watch;  // its sockets close before the context, as the next one's
  std::unique_ptr<ZapHandler> handler;
};

ZmqContext::ZmqContext(Security security, int io_threads)
    : state_(std::make_unique<State>(std::move(security), io_threads)) {}
ZmqContext::~ZmqContext() = default;

std::unique_ptr<Endpoint> ZmqContext::make_endpoint(EndpointLimits limits) {
  auto zmq = std::make_unique<ZmqEndpoint>(state_->context, state_->watch, state_->security,
                                           state_->tokens, limits);
  return std::make_unique<TwoWires>(
      std::move(zmq), [state = state_.get(), limits]() -> Result<std::unique_ptr<WatchedEndpoint>> {
        if (state->security.is_insecure()) {
          return make_error(ErrorCode::kUnavailable,
                            "UCX is used under data_security: TOKEN alone, and insecure: true has "
                            "no secrets");
        }
        return make_ucx_endpoint(state->security, state->tokens, limits);
      });
}

std::unique_ptr<Endpoint> ZmqContext::make_data_endpoint(EndpointLimits limits) {
  auto endpoint = make_endpoint(limits);
  if (state_->tokens) {
    endpoint->use_token(state_->tokens->make(
        {.use = TokenUse::kServe, .public_key = state_->security.own.public_key}));
  }
  return endpoint;
}

const std::optional<TokenKey>& ZmqContext::tokens() const {
  return state_->tokens;
}

void ZmqContext::end_admission() {
  state_->handler.reset();
}

}  // namespace taut
