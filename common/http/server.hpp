#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "common/http/request.hpp"
#include "common/result.hpp"
#include "common/time.hpp"

namespace taut::http {

/// Limits for one peer, and for all of them together.
struct Limits {
  std::size_t header_bytes = 8 << 10;
  std::size_t body_bytes = 16 << 10;
  // One more replaces an idle one, of the address that has the most connections.
  std::size_t connections = 128;
  std::size_t streams = 64;  // of these; one more is answered with 503
  std::size_t streams_of_address = 32;
  Duration stream{600'000'000};   // a stream ends after this, and a browser reopens it
  std::size_t waiting = 16;       // pending requests with Options::waits(); see late
  Duration patience{2'000'000};   // for the answer to one of these
  Duration request{5'000'000};    // from a connection's first byte to its complete request
  Duration send{10'000'000};      // a peer that takes longer to accept a piece is disconnected
  std::size_t queued_events = 4;  // per stream; a slow one misses events
};

/// Answers HTTP/1.1 on one address, on a dedicated thread. Whatever a peer sends costs no
/// more than the limits, and affects only its own connection.
/// Thread    any; the handler and the timer are called on the server's thread, which answers all
///           peers. Requests that may wait are handled on a second one: see Options::waits.
class Server {
 public:
  using Handler = std::function<Response(const Request&)>;
  /// Called every `tick` with the number of open streams.
  using Timer = std::function<void(std::size_t streams)>;
  struct Options {
    std::string address;                  // "host:port"; port 0: chosen by the system
    std::vector<std::string> hosts;       // as Policy::hosts; the address and localhost are added
    std::string secret;                   // as Login requires; empty: no login is needed
    std::vector<std::string> open_paths;  // answered without a login
    Limits limits;
    Duration tick{500'000};
    Timer timer;  // empty: none
    /// Whether the answer to a request may take long. The handler is called for these requests on a
    /// second thread, one after the other, and so is the timer. Empty: no answer takes long.
    std::function<bool(const Request&)> waits;
    /// Answers, on the first thread, a request that the second one does not answer in time.
    /// REQUIRES: not empty if `waits` is not.
    Handler late;
  };

  /// Listens and starts.
  /// Errors    exists: the port is in use; invalid: an address that cannot be listened on
  [[nodiscard]] static Result<std::unique_ptr<Server>> start(Options options, Handler handler);
  /// Closes every connection and joins.
  ~Server();
  Server(const Server&) = delete;
  Server& operator=(const Server&) = delete;

  /// The address as bound.
  [[nodiscard]] const std::string& address() const;
  /// Sends a piece to every stream; a stream whose queue is full misses it.
  void publish(const std::string& piece);

 private:
  class Impl;
  explicit Server(std::shared_ptr<Impl> impl);
  std::shared_ptr<Impl> impl_;
};

}  // namespace taut::http
