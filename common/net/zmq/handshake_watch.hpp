#pragma once

#include <cstdint>
#include <optional>
#include <zmq.hpp>

#include "common/net/endpoint.hpp"

namespace taut {

/// What ZeroMQ reports of a socket's connections.
struct SocketEvent {
  std::uint16_t number = 0;  // ZMQ_EVENT_...
  std::uint32_t value = 0;
};

/// The next event that a socket's monitor has sent; nullopt if none is pending.
/// events  the other end of the monitor
[[nodiscard]] std::optional<SocketEvent> next_event(zmq::socket_t& events);

/// The events of one socket's handshakes. Must end before the socket: ZeroMQ's thread would wait
/// forever to hand over an event that no thread can receive.
/// Thread    the socket's
class HandshakeEvents {
 public:
  HandshakeEvents(zmq::context_t& context, zmq::socket_t& socket);
  ~HandshakeEvents();
  HandshakeEvents(const HandshakeEvents&) = delete;
  HandshakeEvents& operator=(const HandshakeEvents&) = delete;

  /// To be polled for input.
  [[nodiscard]] void* handle() { return events_.handle(); }
  [[nodiscard]] std::optional<SocketEvent> next() { return next_event(events_); }

 private:
  zmq::socket_t& socket_;
  zmq::socket_t events_;
};

/// How a socket proves its identity: decides what a refusal advises.
enum class Proof : std::uint8_t { kNone, kKey, kSecret };

/// Observes the handshakes of one connecting socket, and reports why none succeeds.
/// Thread    the socket's
class HandshakeWatch {
 public:
  /// socket   not connected yet; outlives this
  HandshakeWatch(zmq::context_t& context, zmq::socket_t& socket, Proof proof)
      : events_(context, socket), proof_(proof) {}

  /// To be polled for input together with the socket.
  [[nodiscard]] void* handle() { return events_.handle(); }
  /// Reads the events since the last call. Returns whether a handshake failed.
  bool read();
  [[nodiscard]] const std::optional<Refusal>& refusal() const { return refusal_; }
  /// Whether a handshake has ever succeeded.
  [[nodiscard]] bool has_succeeded() const { return has_succeeded_; }

 private:
  void note(const SocketEvent& event);

  HandshakeEvents events_;
  Proof proof_ = Proof::kNone;
  int ended_early_ = 0;  // consecutive handshakes
  bool has_succeeded_ = false;
  std::optional<Refusal> refusal_;
};

/// Whether a handshake with a listening socket of the cluster succeeds for a key that was not
/// admitted: then no handler decides, and every process is let in.
/// place   "tcp://HOST:PORT"
/// Errors  timeout: the listener does not decide in time
[[nodiscard]] Result<bool> admits_strangers(const std::string& place,
                                            const std::string& cluster_key, Duration wait);

/// Overload for a listening socket of a plain data plane: the same for a randomly drawn secret.
[[nodiscard]] Result<bool> admits_strangers(const std::string& place, Duration wait);

/// Uses ZeroMQ's mechanism by which a connection of a plain data plane shows the secret that each
/// of its messages then carries: a peer without one is cut off before it can send a message.
/// request  DataToken::request()
/// Throws   zmq::error_t
void show_secret(zmq::socket_t& socket, const Frame& request);
/// The user's name in that mechanism.
inline constexpr const char* kSecretUser = "tautline";

}  // namespace taut
