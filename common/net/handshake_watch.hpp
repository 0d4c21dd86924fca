#pragma once

#include <cstdint>
#include <optional>
#include <zmq.hpp>

#include "common/net/endpoint.hpp"

namespace taut {

/// The events of one socket's handshakes. Ends before the socket: ZeroMQ's own thread would wait
/// forever to hand over an event that no thread can receive.
/// Thread    the socket's
class HandshakeEvents {
 public:
  struct Event {
    std::uint16_t number = 0;  // ZMQ_EVENT_...
    std::uint32_t value = 0;
  };

  HandshakeEvents(zmq::context_t& context, zmq::socket_t& socket);
  ~HandshakeEvents();
  HandshakeEvents(const HandshakeEvents&) = delete;
  HandshakeEvents& operator=(const HandshakeEvents&) = delete;

  /// To be polled for input.
  [[nodiscard]] void* handle() { return events_.handle(); }
  [[nodiscard]] std::optional<Event> next();

 private:
  zmq::socket_t& socket_;
  zmq::socket_t events_;
};

/// Observes the handshakes of one connecting socket, and says why none succeeds.
/// Thread    the socket's
class HandshakeWatch {
 public:
  /// socket   not connected yet; outlives this
  /// has_keys whether it has keys: decides what a refusal advises
  HandshakeWatch(zmq::context_t& context, zmq::socket_t& socket, bool has_keys)
      : events_(context, socket), has_keys_(has_keys) {}

  /// To be polled for input together with the socket.
  [[nodiscard]] void* handle() { return events_.handle(); }
  /// Takes what has happened since the last call. Returns whether a handshake failed.
  bool read();
  [[nodiscard]] const std::optional<Refusal>& refusal() const { return refusal_; }

 private:
  void note(const HandshakeEvents::Event& event);

  HandshakeEvents events_;
  bool has_keys_ = false;
  int ended_early_ = 0;  // handshakes in a row
  std::optional<Refusal> refusal_;
};

/// Whether a handshake with a listening socket of the cluster succeeds for a key that was not
/// admitted: then no handler decides, and every process gets in.
/// place   "tcp://HOST:PORT"
/// Errors  timeout: the listener does not decide in time
[[nodiscard]] Result<bool> admits_strangers(const std::string& place,
                                            const std::string& cluster_key, Duration wait);

}  // namespace taut
