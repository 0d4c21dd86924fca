#include "common/net/zmq/zmq_sockets.hpp"

#include <fmt/format.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <limits>
#include <stdexcept>

namespace taut {
namespace {

// The number of ZMQ_ZAP_ENFORCE_DOMAIN, whose name is draft in libzmq 4.3 but whose number is not:
// without a handler no handshake succeeds.
constexpr int kEnforceDomain = 93;
constexpr const char* kDomain = "tautline";
// A peer that connects and sends nothing takes a file descriptor for this long.
constexpr Duration kHandshakeLimit = std::chrono::seconds(5);
// A loopback handshake takes milliseconds; a machine may be busy.
constexpr Duration kProbeWait = std::chrono::seconds(10);

/// IPv6 only for an address in brackets: otherwise IPv4 addresses would be written as mapped ones.
void allow_ipv6(zmq::socket_t& socket, const std::string& address) {
  if (address.starts_with('[')) socket.set(zmq::sockopt::ipv6, 1);
}

/// How many messages of one peer may have arrived and wait.
std::size_t waiting_messages(const EndpointLimits& limits) {
  return std::min(limits.queued_messages, limits.arrived_messages);
}

}  // namespace

ZmqSockets::ZmqSockets(zmq::context_t& context, ConnectionWatch& watch, const Security& security,
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

ZmqSockets::~ZmqSockets() {
  close_router();
  close(wake_);
}

void ZmqSockets::wake() {
  const std::uint64_t one = 1;
  // A full counter means that a wake-up is pending already.
  [[maybe_unused]] const ssize_t written = write(wake_, &one, sizeof one);
}

int ZmqSockets::to_milliseconds(Duration wait) {
  if (wait <= Duration::zero()) return 0;
  const auto rounded = std::chrono::ceil<std::chrono::milliseconds>(wait).count();
  return static_cast<int>(std::min<std::int64_t>(rounded, 1'000'000'000));
}

void ZmqSockets::set_limits(zmq::socket_t& socket) const {
  socket.set(zmq::sockopt::linger, to_milliseconds(limits_.linger));
  socket.set(zmq::sockopt::sndhwm, static_cast<int>(limits_.queued_messages));
  socket.set(zmq::sockopt::rcvhwm, static_cast<int>(limits_.queued_messages));
  socket.set(zmq::sockopt::maxmsgsize, static_cast<std::int64_t>(limits_.frame.value()));
  socket.set(zmq::sockopt::handshake_ivl, to_milliseconds(kHandshakeLimit));
  // A host that disappears silently leaves connections that neither side would close.
  socket.set(zmq::sockopt::tcp_keepalive, 1);
  socket.set(zmq::sockopt::tcp_keepalive_idle, 60);
  socket.set(zmq::sockopt::tcp_keepalive_intvl, 15);
  socket.set(zmq::sockopt::tcp_keepalive_cnt, 4);
  socket.set(zmq::sockopt::reconnect_ivl, 50);
  socket.set(zmq::sockopt::reconnect_ivl_max, 1000);
}

Result<void> ZmqSockets::open_router() {
  if (router_) return ok();
  zmq::socket_t router(context_, zmq::socket_type::router);
  set_limits(router);
  // Peers that this side connects to need no lower limit: they have the cluster's secret.
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
  // The same limit holds for the bytes of a message that has not ended.
  watch_.add(router,
             has_byte_limit() ? limits_.frame.value() : std::numeric_limits<std::uint64_t>::max());
  router_ = std::move(router);
  return ok();
}

void ZmqSockets::close_router() {
  if (!router_) return;
  watch_.remove(router_);
  router_.close();
}

/// Whether messages that arrive are limited in bytes, where few of them may wait: each to the limit
/// of one frame, however many frames it has.
bool ZmqSockets::has_byte_limit() const {
  return limits_.arrived_messages < limits_.queued_messages;
}

/// Tries to connect with a key that was not admitted, or with a secret of another cluster.
Result<void> ZmqSockets::probe(const std::string& place) const {
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

Result<std::string> ZmqSockets::bind(const std::string& address) {
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

Result<PeerId> ZmqSockets::connect(const std::string& address) {
  try {
    const std::optional<DataToken> token = security_.is_insecure() ? std::nullopt : token_;
    const Proof proof = token                     ? Proof::kSecret
                        : security_.is_insecure() ? Proof::kNone
                                                  : Proof::kKey;
    auto dealer = std::make_unique<Dealer>(context_, proof, token);
    zmq::socket_t& socket = dealer->socket;
    set_limits(socket);
    // I/O threads take turns: the thread with the fewest descriptors, ZeroMQ's own choice, would
    // get all connections that are made before the first of them has one.
    const auto threads = static_cast<std::uint64_t>(context_.get(zmq::ctxopt::io_threads));
    socket.set(zmq::sockopt::affinity, std::uint64_t{1} << (next_peer_ % threads));
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

std::uint64_t ZmqSockets::unread(PeerId peer) const {
  const ZmqCaller* caller = callers_.find(peer);
  return caller == nullptr ? 0 : caller->unread.bytes();
}

std::string ZmqSockets::key_of(PeerId peer) const {
  const ZmqCaller* caller = callers_.find(peer);
  return caller == nullptr ? std::string() : caller->key;
}

std::optional<Refusal> ZmqSockets::refusal(PeerId peer) const {
  for (const auto& dealer : dealers_) {
    if (dealer->peer == peer) return dealer->handshakes.refusal();
  }
  return std::nullopt;
}

bool ZmqSockets::has_reached(PeerId peer) const {
  return std::ranges::any_of(dealers_, [peer](const auto& dealer) {
    return dealer->peer == peer && dealer->handshakes.has_succeeded();
  });
}

void ZmqSockets::disconnect(PeerId peer) {
  std::erase_if(dealers_, [peer](const auto& dealer) { return dealer->peer == peer; });
}

std::vector<PeerId> ZmqSockets::take_closed() {
  return router_ ? callers_.take_closed(watch_.take_ended(router_)) : std::vector<PeerId>();
}

std::shared_ptr<const Identity> ZmqSockets::holder_of(const std::string& key) const {
  return key.empty() ? nullptr : security_.admission->find(key);
}

}  // namespace taut
