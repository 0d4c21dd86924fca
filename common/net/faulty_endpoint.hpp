#pragma once

#include <atomic>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <random>

#include "common/net/endpoint.hpp"

namespace taut {

/// What a worse network does to each message, each way.
struct LinkFaults {
  Duration delay{0};
  Duration jitter{0};  // up to so much more, drawn for each message; none overtakes another
  double loss = 0;     // the share of messages that never arrive

  [[nodiscard]] bool none() const {
    return delay == Duration::zero() && jitter == Duration::zero() && loss <= 0;
  }
};

/// An endpoint behind a worse network: it keeps what is sent and what is received back for a while,
/// and loses some of it, as its seed says. Each direction keeps its order. What is sent leaves while
/// somebody receives, at the latest when the endpoint closes.
/// Thread    one, as the endpoint that it wraps; wake(): any
class FaultyEndpoint final : public Endpoint {
 public:
  using Now = std::function<TimePoint()>;

  FaultyEndpoint(std::unique_ptr<Endpoint> inner, LinkFaults faults, std::uint64_t seed,
                 Now now = steady_now);
  ~FaultyEndpoint() override;

  Result<std::string> bind(const std::string& address) override { return inner_->bind(address); }
  Result<PeerId> connect(const std::string& address) override { return inner_->connect(address); }
  void disconnect(PeerId peer) override;
  /// Errors    unavailable: as many messages wait as a queue holds
  Result<void> send(PeerId to, Message message) override;
  std::optional<Incoming> receive(Duration wait) override;
  void wake() override;

 private:
  struct Held {
    TimePoint due;
    PeerId peer;
    Message message;
  };
  [[nodiscard]] bool lost();
  void take(Incoming arrived);
  void hold(std::deque<Held>& queue, PeerId peer, Message message);
  void send_due();

  std::unique_ptr<Endpoint> inner_;
  const LinkFaults faults_;
  std::mt19937_64 random_;
  const Now now_;
  std::deque<Held> outgoing_;
  std::deque<Held> incoming_;
  std::atomic<bool> woken_ = false;
};

}  // namespace taut
