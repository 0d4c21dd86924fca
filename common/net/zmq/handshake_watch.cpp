#include "common/net/zmq/handshake_watch.hpp"

#include <fmt/format.h>

#include <atomic>
#include <cstring>
#include <functional>
#include <string>
#include <string_view>

#include "common/net/data_token.hpp"
#include "common/net/security.hpp"

namespace taut {
namespace {

constexpr int kEvents = ZMQ_EVENT_HANDSHAKE_SUCCEEDED | ZMQ_EVENT_HANDSHAKE_FAILED_NO_DETAIL |
                        ZMQ_EVENT_HANDSHAKE_FAILED_PROTOCOL | ZMQ_EVENT_HANDSHAKE_FAILED_AUTH;
// A process that ends in the middle of a handshake closes the connection too, but not this often.
constexpr int kEarlyEnds = 3;

}  // namespace

/// A monitor sends a number with a value, and then an address.
std::optional<SocketEvent> next_event(zmq::socket_t& events) {
  zmq::message_t part;
  if (!events.recv(part, zmq::recv_flags::dontwait)) return std::nullopt;
  SocketEvent event;
  if (part.size() >= sizeof event.number + sizeof event.value) {
    const auto* const bytes = static_cast<const char*>(part.data());
    std::memcpy(&event.number, bytes, sizeof event.number);
    std::memcpy(&event.value, bytes + sizeof event.number, sizeof event.value);
  }
  while (part.more() && events.recv(part, zmq::recv_flags::none)) {
  }
  return event;
}

HandshakeEvents::HandshakeEvents(zmq::context_t& context, zmq::socket_t& socket)
    : socket_(socket), events_(context, zmq::socket_type::pair) {
  static std::atomic<std::uint64_t> count = 0;
  const std::string place = fmt::format("inproc://handshakes-{}", count++);
  if (zmq_socket_monitor(socket_.handle(), place.c_str(), kEvents) != 0) throw zmq::error_t();
  events_.set(zmq::sockopt::linger, 0);
  events_.connect(place);
}

HandshakeEvents::~HandshakeEvents() {
  zmq_socket_monitor(socket_.handle(), nullptr, 0);
}

bool HandshakeWatch::read() {
  bool has_failed = false;
  while (const auto event = events_.next()) {
    note(*event);
    has_failed = refusal_.has_value();
  }
  return has_failed;
}

void HandshakeWatch::note(const SocketEvent& event) {
  switch (event.number) {
    case ZMQ_EVENT_HANDSHAKE_SUCCEEDED:
      ended_early_ = 0;
      has_succeeded_ = true;
      refusal_.reset();
      break;
    case ZMQ_EVENT_HANDSHAKE_FAILED_AUTH:
      if (proof_ == Proof::kSecret) {
        refusal_ = {true,
                    "does not accept this process's secret: its key was revoked, or that process "
                    "belongs to another cluster"};
        break;
      }
      refusal_ = {true,
                  "does not know this key, or it was revoked: run \"tautline keys add NAME --role "
                  "ROLE\" where the cluster's keys are, and copy NAME.key to this machine"};
      break;
    case ZMQ_EVENT_HANDSHAKE_FAILED_PROTOCOL:
      if (event.value != ZMQ_PROTOCOL_ERROR_ZMTP_MECHANISM_MISMATCH) break;
      if (proof_ == Proof::kSecret) {
        refusal_ = {true,
                    "has no data_security: TOKEN, as the coordinator has: give all daemons of the "
                    "cluster the same"};
        break;
      }
      refusal_ = {true, proof_ == Proof::kKey
                            ? "has no keys, and this side demands them: if it really runs with "
                              "insecure: true, say so here too (commands: --insecure)"
                            : "demands a key, and this side has none: leave out insecure: true "
                              "(commands: --insecure)"};
      break;
    default:
      // A listener that cannot read the first message, since that is for another key, hangs up.
      if (proof_ != Proof::kKey || ++ended_early_ < kEarlyEnds) break;
      refusal_ = {
          false,
          "ends every handshake: it belongs to another cluster than this side's key, has no keys, "
          "or is not a Tautline process; name the folder of its cluster's keys (keys: in the "
          "cluster file, commands: --keys)"};
  }
}

void show_secret(zmq::socket_t& socket, const Frame& request) {
  const std::string_view secret = request.text();
  const bool is_set =
      zmq_setsockopt(socket.handle(), ZMQ_PLAIN_USERNAME, kSecretUser, std::strlen(kSecretUser)) ==
          0 &&
      zmq_setsockopt(socket.handle(), ZMQ_PLAIN_PASSWORD, secret.data(), secret.size()) == 0;
  if (!is_set) throw zmq::error_t();
}

namespace {

/// prepare  gives the socket its credentials
Result<bool> gets_in(const std::string& place, Duration wait,
                     const std::function<void(zmq::socket_t&)>& prepare) {
  zmq::context_t context(1);
  zmq::socket_t socket(context, zmq::socket_type::dealer);
  socket.set(zmq::sockopt::linger, 0);
  prepare(socket);
  HandshakeEvents events(context, socket);
  socket.connect(place);
  const TimePoint deadline = steady_now() + wait;
  while (steady_now() < deadline) {
    zmq::pollitem_t item{events.handle(), 0, ZMQ_POLLIN, 0};
    constexpr long kTurn_ms = 100;
    zmq_poll(&item, 1, kTurn_ms);
    while (const auto event = events.next()) {
      if (event->number == ZMQ_EVENT_HANDSHAKE_SUCCEEDED) return true;
      if (event->number == ZMQ_EVENT_HANDSHAKE_FAILED_AUTH) return false;
    }
  }
  return make_error(ErrorCode::kTimeout,
                    fmt::format("a stranger's handshake was not decided in {:g} s", seconds(wait)));
}

}  // namespace

Result<bool> admits_strangers(const std::string& place, const std::string& cluster_key,
                              Duration wait) {
  return gets_in(place, wait, [&cluster_key](zmq::socket_t& socket) {
    const KeyPair stranger = make_key_pair();
    socket.set(zmq::sockopt::curve_serverkey, cluster_key);
    socket.set(zmq::sockopt::curve_publickey, stranger.public_key);
    socket.set(zmq::sockopt::curve_secretkey, stranger.secret_key);
  });
}

Result<bool> admits_strangers(const std::string& place, Duration wait) {
  return gets_in(place, wait, [](zmq::socket_t& socket) {
    // The scope of a server, under a secret of another cluster.
    const KeyPair stranger = make_key_pair();
    const TokenScope scope{.use = TokenUse::kServe, .public_key = stranger.public_key};
    show_secret(socket, TokenKey(stranger.secret_key).make(scope).request());
  });
}

}  // namespace taut
