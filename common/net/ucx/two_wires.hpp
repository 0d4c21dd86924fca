#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "common/net/endpoint.hpp"
#include "common/net/ucx/ucx_endpoint.hpp"

namespace taut {

/// An endpoint whose receive() can also wait for another endpoint.
class WaitingEndpoint : public Endpoint {
 public:
  /// From now on receive() also returns when this descriptor is readable.
  virtual void also_wait_for(int descriptor) = 0;
};

/// An endpoint over ZeroMQ, and over UCX for addresses "ucx://host:port". Without such an address
/// it only forwards to the ZeroMQ endpoint, and UCX is not loaded.
class TwoWires final : public Endpoint {
 public:
  using OpenUcx = std::function<Result<std::unique_ptr<WatchedEndpoint>>()>;

  TwoWires(std::unique_ptr<WaitingEndpoint> zmq, OpenUcx open_ucx)
      : zmq_(std::move(zmq)), open_ucx_(std::move(open_ucx)) {}
  TwoWires(const TwoWires&) = delete;
  TwoWires& operator=(const TwoWires&) = delete;
  ~TwoWires() override = default;

  void use_token(const std::optional<DataToken>& own) override;
  void expect_key(const std::string& public_key) override { zmq_->expect_key(public_key); }
  Result<std::string> bind(const std::string& address) override;
  Result<PeerId> connect(const std::string& address) override;
  void disconnect(PeerId peer) override { wire_of(peer).disconnect(peer); }
  Result<void> send(PeerId to, Message message) override {
    return wire_of(to).send(to, std::move(message));
  }
  std::uint64_t unread(PeerId peer) const override { return wire_of(peer).unread(peer); }
  std::string key_of(PeerId peer) const override { return wire_of(peer).key_of(peer); }
  std::uint64_t unadmitted() const override {
    return zmq_->unadmitted() + (ucx_ ? ucx_->unadmitted() : 0);
  }
  std::optional<Refusal> refusal(PeerId peer) const override { return wire_of(peer).refusal(peer); }
  bool has_reached(PeerId peer) const override { return wire_of(peer).has_reached(peer); }
  std::vector<PeerId> take_closed() override { return zmq_->take_closed(); }
  std::optional<Incoming> receive(Duration wait) override;
  void wake() override {
    is_woken_ = true;
    zmq_->wake();
    // Written once, before another thread learns of a UCX peer; see receive().
    if (WatchedEndpoint* const ucx = shared_ucx_.load()) ucx->wake();
  }

 private:
  [[nodiscard]] Endpoint& wire_of(PeerId peer) const {
    return ucx_ && is_ucx_number(peer) ? static_cast<Endpoint&>(*ucx_) : *zmq_;
  }
  [[nodiscard]] Result<void> need_ucx();

  const std::unique_ptr<WaitingEndpoint> zmq_;
  const OpenUcx open_ucx_;
  std::optional<DataToken> token_;
  std::unique_ptr<WatchedEndpoint> ucx_;  // nullptr until an address needs it
  std::atomic<WatchedEndpoint*> shared_ucx_ = nullptr;
  bool uses_zmq_ = false;  // some address is a ZeroMQ address
  bool is_zmqs_turn_ = false;
  std::atomic<bool> is_woken_ = false;
};

}  // namespace taut
