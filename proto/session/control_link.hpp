#pragma once

#include <memory>
#include <string>
#include <vector>

#include "common/net/endpoint.hpp"
#include "common/result.hpp"
#include "proto/session/control_session.hpp"
#include "proto/session/coordinator_addresses.hpp"
#include "proto/session/silence_watch.hpp"

namespace taut {

/// A ControlSession on a real connection: one daemon's connection to the coordinator. If several
/// could coordinate, it tries one after the other until it finds the one that does. Silence is
/// logged.
/// Thread    one; wake() from any
class ControlLink {
 public:
  /// addresses  of all processes that could coordinate, separated by commas
  /// Errors    invalid: a malformed address
  [[nodiscard]] static Result<std::unique_ptr<ControlLink>> open(std::unique_ptr<Endpoint> endpoint,
                                                                 const std::string& addresses,
                                                                 ControlIdentity identity,
                                                                 ControlTimings timings);

  /// Sends what is due and receives, waiting up to `wait`. Returns the events.
  [[nodiscard]] std::vector<ControlEvent> step(Duration wait);
  /// Sets the content of further heartbeats; an urgent one is sent at the next step.
  void report(pb::Heartbeat content, bool urgent) { session_.report(std::move(content), urgent); }
  /// Asks the coordinator to give this process's work to others.
  void leave() { session_.leave(); }
  /// Tells the coordinator that this process ends, so that no process waits for it.
  void say_goodbye(const std::string& reason);
  void wake() { endpoint_->wake(); }
  [[nodiscard]] const ControlSession& session() const { return session_; }

 private:
  ControlLink(std::unique_ptr<Endpoint> endpoint, CoordinatorAddresses addresses,
              PeerId coordinator, ControlIdentity identity, ControlTimings timings);
  void act(ControlOutput output, std::vector<ControlEvent>& events);
  void note_refusal(std::vector<ControlEvent>& events);

  std::unique_ptr<Endpoint> endpoint_;
  CoordinatorAddresses addresses_;
  PeerId coordinator_;
  ControlSession session_;
  SilenceWatch silence_;
  std::string refusal_;  // why this side's key is not accepted, as last logged
};

}  // namespace taut
