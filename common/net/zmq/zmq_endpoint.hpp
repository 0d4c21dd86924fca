#pragma once

#include <memory>
#include <optional>

#include "common/net/data_token.hpp"
#include "common/net/endpoint.hpp"
#include "common/net/security.hpp"

namespace taut {

/// The process's ZeroMQ context: its I/O threads, and with keys the handler that admits them.
/// Outlives every endpoint made from it.
class ZmqContext {
 public:
  /// Throws std::runtime_error when the process has no file descriptors left.
  explicit ZmqContext(Security security, int io_threads = 1);
  ~ZmqContext();
  ZmqContext(const ZmqContext&) = delete;
  ZmqContext& operator=(const ZmqContext&) = delete;

  /// Throws std::runtime_error when the process has no file descriptors left.
  [[nodiscard]] std::unique_ptr<Endpoint> make_endpoint(EndpointLimits limits = {});

  /// An endpoint of a server for the data plane: where that is plain, with the server's own secret.
  [[nodiscard]] std::unique_ptr<Endpoint> make_data_endpoint(EndpointLimits limits = {});

  /// Makes the secrets of a plain data plane; nullopt if the data plane is not plain or this
  /// process does not listen.
  [[nodiscard]] const std::optional<TokenKey>& tokens() const;

  /// Ends the handler that admits keys; for a test that no peer is admitted without it.
  void end_admission();

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace taut
