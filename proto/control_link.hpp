#pragma once

#include <memory>
#include <string>
#include <vector>

#include "common/net/endpoint.hpp"
#include "common/result.hpp"
#include "proto/control_session.hpp"
#include "proto/silence_watch.hpp"

namespace taut {

/// A ControlSession on a real connection: one daemon's line to the coordinator. Its silence is
/// logged.
/// Thread    one; wake() from any
class ControlLink {
 public:
  /// Errors    invalid: an address that cannot be connected to
  [[nodiscard]] static Result<std::unique_ptr<ControlLink>> open(
      std::unique_ptr<Endpoint> endpoint, const std::string& coordinator_address,
      ControlIdentity identity, ControlTimings timings);

  /// Sends what is due, takes what has come, waiting up to `wait`, and says what happened.
  [[nodiscard]] std::vector<ControlEvent> step(Duration wait);
  /// What heartbeats carry from now on; urgent ones leave at the next step.
  void report(pb::Heartbeat content, bool urgent) { session_.report(std::move(content), urgent); }
  /// Tells the coordinator that this process ends, so that nobody waits for it.
  void say_goodbye(const std::string& reason);
  void wake() { endpoint_->wake(); }
  [[nodiscard]] const ControlSession& session() const { return session_; }

 private:
  ControlLink(std::unique_ptr<Endpoint> endpoint, std::string address, PeerId coordinator,
              ControlIdentity identity, ControlTimings timings);
  void act(ControlOutput output, std::vector<ControlEvent>& events);

  std::unique_ptr<Endpoint> endpoint_;
  const std::string address_;
  PeerId coordinator_;
  ControlSession session_;
  SilenceWatch silence_;
};

}  // namespace taut
