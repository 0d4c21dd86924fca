#pragma once

#include <memory>

#include "common/net/endpoint.hpp"

namespace taut {

/// The process's ZeroMQ context: its I/O threads. Outlives every endpoint made from it.
class ZmqContext {
 public:
  explicit ZmqContext(int io_threads = 1);
  ~ZmqContext();
  ZmqContext(const ZmqContext&) = delete;
  ZmqContext& operator=(const ZmqContext&) = delete;

  /// Throws std::runtime_error when the process has no file descriptors left.
  [[nodiscard]] std::unique_ptr<Endpoint> make_endpoint(EndpointLimits limits = {});

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace taut
