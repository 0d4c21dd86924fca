#include "common/net/handshake_watch.hpp"

#include <fmt/format.h>

#include <atomic>
#include <cstring>
#include <string>

#include "common/net/security.hpp"

namespace taut {
namespace {

constexpr int kEvents = ZMQ_EVENT_HANDSHAKE_SUCCEEDED | ZMQ_EVENT_HANDSHAKE_FAILED_NO_DETAIL |
                        ZMQ_EVENT_HANDSHAKE_FAILED_PROTOCOL | ZMQ_EVENT_HANDSHAKE_FAILED_AUTH;
// A process that ends in the middle of a handshake closes the connection too, but not so often.
constexpr int kEarlyEnds = 3;

struct HandshakeEvent {
  std::uint16_t event = 0;
  std::uint32_t value = 0;
};

/// The next event of a monitor, which sends a number, a value and then an address.
std::optional<HandshakeEvent> next_event(zmq::socket_t& events) {
  zmq::message_t number;
  if (!events.recv(number, zmq::recv_flags::dontwait)) return std::nullopt;
  HandshakeEvent event;
  if (number.size() >= sizeof event.event + sizeof event.value) {
    const auto* const bytes = static_cast<const char*>(number.data());
    std::memcpy(&event.event, bytes, sizeof event.event);
    std::memcpy(&event.value, bytes + sizeof event.event, sizeof event.value);
  }
  while (number.more() && events.recv(number, zmq::recv_flags::none)) {
  }
  return event;
}

zmq::socket_t watch(zmq::context_t& context, zmq::socket_t& socket) {
  static std::atomic<std::uint64_t> count = 0;
  const std::string place = fmt::format("inproc://handshakes-{}", count++);
  if (zmq_socket_monitor(socket.handle(), place.c_str(), kEvents) != 0) throw zmq::error_t();
  zmq::socket_t events(context, zmq::socket_type::pair);
  events.set(zmq::sockopt::linger, 0);
  events.connect(place);
  return events;
}

}  // namespace

HandshakeWatch::HandshakeWatch(zmq::context_t& context, zmq::socket_t& socket, bool has_keys)
    : events_(watch(context, socket)), has_keys_(has_keys) {}

bool HandshakeWatch::read() {
  bool has_failed = false;
  while (const auto event = next_event(events_)) {
    note(event->event, event->value);
    has_failed = refusal_.has_value();
  }
  return has_failed;
}

void HandshakeWatch::note(std::uint16_t event, std::uint32_t value) {
  switch (event) {
    case ZMQ_EVENT_HANDSHAKE_SUCCEEDED:
      ended_early_ = 0;
      refusal_.reset();
      break;
    case ZMQ_EVENT_HANDSHAKE_FAILED_AUTH:
      refusal_ = {true,
                  "does not know this key, or it was revoked: run \"tautline keys add NAME --role "
                  "ROLE\" where the cluster's keys are, and copy NAME.key to this machine"};
      break;
    case ZMQ_EVENT_HANDSHAKE_FAILED_PROTOCOL:
      if (value != ZMQ_PROTOCOL_ERROR_ZMTP_MECHANISM_MISMATCH) break;
      refusal_ = {true, has_keys_
                            ? "has no keys, and this side demands them: if it really runs with "
                              "insecure: true, say so here too (commands: --insecure)"
                            : "demands a key, and this side has none: leave out insecure: true "
                              "(commands: --insecure)"};
      break;
    default:
      // A listener that cannot read the first message, since that is for another key, hangs up.
      if (!has_keys_ || ++ended_early_ < kEarlyEnds) break;
      refusal_ = {
          false,
          "ends every handshake: it belongs to another cluster than this side's key, has no keys, "
          "or is no process of Tautline's; name the folder of its cluster's keys (keys: in the "
          "cluster file, commands: --keys)"};
  }
}

Result<bool> admits_strangers(const std::string& place, const std::string& cluster_key,
                              Duration wait) {
  const KeyPair stranger = make_key_pair();
  zmq::context_t context(1);
  zmq::socket_t socket(context, zmq::socket_type::dealer);
  socket.set(zmq::sockopt::linger, 0);
  socket.set(zmq::sockopt::curve_serverkey, cluster_key);
  socket.set(zmq::sockopt::curve_publickey, stranger.public_key);
  socket.set(zmq::sockopt::curve_secretkey, stranger.secret_key);
  zmq::socket_t events = watch(context, socket);
  socket.connect(place);
  const TimePoint deadline = steady_now() + wait;
  while (steady_now() < deadline) {
    zmq::pollitem_t item{events.handle(), 0, ZMQ_POLLIN, 0};
    constexpr long kTurn_ms = 100;
    zmq_poll(&item, 1, kTurn_ms);
    while (const auto event = next_event(events)) {
      if (event->event == ZMQ_EVENT_HANDSHAKE_SUCCEEDED) return true;
      if (event->event == ZMQ_EVENT_HANDSHAKE_FAILED_AUTH) return false;
    }
  }
  return make_error(ErrorCode::kTimeout,
                    fmt::format("a stranger's handshake was not decided in {:g} s", seconds(wait)));
}

}  // namespace taut
