#pragma once

#include <atomic>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <random>

#include "common/net/endpoint.hpp"

namespace taut {

/// Faults applied to each message, each way.
struct LinkFaults {
  Duration delay{0};
  Duration jitter{0};  // additional delay up to this, drawn per message; order is kept
  double loss = 0;     // the fraction of messages that are lost

  [[nodiscard]] bool none() const {
    return delay == Duration::zero() && jitter == Duration::zero() && loss <= 0;
  }
};

/// An endpoint behind a faulty network: it delays sent and received messages
/// and loses some, according to its seed. Each direction keeps its order. Messages are sent during
/// receive(), at the latest when the endpoint closes.
/// Thread    one, like the wrapped endpoint; wake(): any
class FaultyEndpoint final : public Endpoint {
 public:
  using Now = std::function<TimePoint()>;

  FaultyEndpoint(std::unique_ptr<Endpoint> inner, LinkFaults faults, std::uint64_t seed,
                 Now now = steady_now);
  ~FaultyEndpoint() override;

  void use_token(const std::optional<DataToken>& own) override { inner_->use_token(own); }
  Result<std::string> bind(const std::string& address) override { return inner_->bind(address); }
  Result<PeerId> connect(const std::string& address) override { return inner_->connect(address); }
  void disconnect(PeerId peer) override;
  /// Errors    unavailable: the queue is full
  Result<void> send(PeerId to, Message message) override;
  std::uint64_t unread(PeerId peer) const override { return inner_->unread(peer); }
  std::string key_of(PeerId peer) const override { return inner_->key_of(peer); }
  std::uint64_t unadmitted() const override { return inner_->unadmitted(); }
  std::optional<Refusal> refusal(PeerId peer) const override { return inner_->refusal(peer); }
  bool has_reached(PeerId peer) const override { return inner_->has_reached(peer); }
  std::vector<PeerId> take_closed() override { return inner_->take_closed(); }
  std::optional<Incoming> receive(Duration wait) override;
  void wake() override;

 private:
  struct Delayed {
    TimePoint due;
    PeerId peer;
    Message message;
    std::shared_ptr<const Identity> sender = nullptr;
    std::shared_ptr<const TokenScope> scope = nullptr;
  };
  [[nodiscard]] bool lost();
  void take(Incoming arrived);
  void hold(std::deque<Delayed>& queue, Incoming message);
  void send_due();

  std::unique_ptr<Endpoint> inner_;
  const LinkFaults faults_;
  std::mt19937_64 random_;
  const Now now_;
  std::deque<Delayed> outgoing_;
  std::deque<Delayed> incoming_;
  std::atomic<bool> woken_ = false;
};

}  // namespace taut
