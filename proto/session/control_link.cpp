#include "proto/session/control_link.hpp"

#include <algorithm>
#include <string>
#include <thread>
#include <utility>

#include "common/log.hpp"
#include "proto/control_message.hpp"

namespace taut {
namespace {

// Heartbeats are answered: several unanswered ones are not a coincidence.
constexpr Duration kSilence = std::chrono::seconds(3);
constexpr Duration kSilenceOfSeveral = std::chrono::seconds(1);
constexpr int kHeartbeats = 4;

}  // namespace

Result<std::unique_ptr<ControlLink>> ControlLink::open(std::unique_ptr<Endpoint> endpoint,
                                                       const std::string& addresses,
                                                       ControlIdentity identity,
                                                       ControlTimings timings) {
  CoordinatorAddresses known(addresses);
  // Another one may lead by then.
  if (known.count() > 1) {
    timings.silence_limit =
        std::min(timings.silence_limit,
                 std::max(kSilenceOfSeveral, kHeartbeats * timings.heartbeat_interval));
  }
  TAUT_TRY(const PeerId coordinator, endpoint->connect(known.current()));
  return std::unique_ptr<ControlLink>(new ControlLink(std::move(endpoint), std::move(known),
                                                      coordinator, std::move(identity), timings));
}

ControlLink::ControlLink(std::unique_ptr<Endpoint> endpoint, CoordinatorAddresses addresses,
                         PeerId coordinator, ControlIdentity identity, ControlTimings timings)
    : endpoint_(std::move(endpoint)),
      addresses_(std::move(addresses)),
      coordinator_(coordinator),
      session_(std::move(identity), timings, steady_now()),
      silence_("the coordinator at " + addresses_.text(),
               std::max(kSilence, kHeartbeats * timings.heartbeat_interval), steady_now()) {}

std::vector<ControlEvent> ControlLink::step(Duration wait) {
  std::vector<ControlEvent> events;
  act(session_.tick(steady_now()), events);
  if (const std::string line = silence_.tick(steady_now()); !line.empty()) log::warn("{}", line);
  const Duration until_tick = session_.next_tick() - steady_now();
  const Duration patience =
      events.empty() ? std::clamp(until_tick, Duration::zero(), wait) : Duration::zero();
  if (auto incoming = endpoint_->receive(patience)) {
    auto message = decode_control(incoming->message);
    if (const std::string line = silence_.heard(steady_now()); !line.empty()) log::info("{}", line);
    if (message) {
      act(session_.handle(message.value(), steady_now()), events);
    } else {
      log::warn("dropped a message from the coordinator: {}", message.error().message);
    }
  } else {
    note_refusal(events);
  }
  return events;
}

/// A process that has never joined gives up if its key is refused for good. One that has joined
/// does not: a process that takes the coordinator's port meanwhile could end it by refusing.
void ControlLink::note_refusal(std::vector<ControlEvent>& events) {
  const auto refusal = endpoint_->refusal(coordinator_);
  if (!refusal || refusal->reason == refusal_) return;
  refusal_ = refusal->reason;
  if (refusal->is_final && session_.incarnation() == Incarnation()) {
    events.emplace_back(control_event::Refused{"it " + refusal_});
  } else {
    log::warn("the coordinator at {} {}", addresses_.current(), refusal_);
  }
}

void ControlLink::act(ControlOutput output, std::vector<ControlEvent>& events) {
  if (output.reconnect) {
    endpoint_->disconnect(coordinator_);
    if (auto again = endpoint_->connect(addresses_.next(output.leader))) {
      coordinator_ = again.value();
    }
  }
  for (const pb::ControlMessage& message : output.messages) {
    // A lost message is sent again: the session repeats it until it is answered.
    if (auto sent = endpoint_->send(coordinator_, encode(message)); !sent) {
      log::debug("coordinator: {}", sent.error().message);
    }
  }
  for (ControlEvent& event : output.events) {
    if (std::holds_alternative<control_event::Accepted>(event)) refusal_.clear();
    auto* const unreachable = std::get_if<control_event::Unreachable>(&event);
    if (unreachable != nullptr && !refusal_.empty()) {
      unreachable->reason = "the process there " + refusal_;
    }
    events.push_back(std::move(event));
  }
}

void ControlLink::say_goodbye(const std::string& reason) {
  if (!session_.accepted()) return;
  if (auto sent = endpoint_->send(coordinator_, encode(session_.goodbye(reason))); sent) {
    // Sockets close without lingering: allow the message time to be sent.
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
  }
}

}  // namespace taut
