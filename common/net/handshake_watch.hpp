#pragma once

#include <memory>
#include <optional>
#include <zmq.hpp>

#include "common/net/endpoint.hpp"

namespace taut {

/// Observes the handshakes of one connecting socket, and says why none succeeds.
/// Thread    the socket's
class HandshakeWatch {
 public:
  /// socket   not connected yet
  /// has_keys whether it has keys: decides what a refusal advises
  HandshakeWatch(zmq::context_t& context, zmq::socket_t& socket, bool has_keys);

  /// To be polled for input together with the socket.
  [[nodiscard]] void* handle() { return events_.handle(); }
  /// Takes what has happened since the last call. Returns whether a handshake failed.
  bool read();
  [[nodiscard]] const std::optional<Refusal>& refusal() const { return refusal_; }

 private:
  void note(std::uint16_t event, std::uint32_t value);

  zmq::socket_t events_;
  bool has_keys_ = false;
  int ended_early_ = 0;  // handshakes in a row
  std::optional<Refusal> refusal_;
};

/// Whether a handshake with a listening socket of the cluster succeeds for a key that nobody
/// admitted: then no handler decides, and every process gets in.
/// place   "tcp://HOST:PORT"
/// Errors  timeout: the listener does not decide in time
[[nodiscard]] Result<bool> admits_strangers(const std::string& place,
                                            const std::string& cluster_key, Duration wait);

}  // namespace taut
