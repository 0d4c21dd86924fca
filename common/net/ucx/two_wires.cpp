#include "common/net/ucx/two_wires.hpp"

#include <utility>

namespace taut {

void TwoWires::use_token(const std::optional<DataToken>& own) {
  token_ = own;
  zmq_->use_token(own);
  if (ucx_) ucx_->use_token(own);
}

Result<void> TwoWires::need_ucx() {
  if (ucx_) return ok();
  TAUT_TRY(ucx_, open_ucx_());
  ucx_->use_token(token_);
  zmq_->also_wait_for(ucx_->descriptor());
  shared_ucx_ = ucx_.get();
  return ok();
}

Result<std::string> TwoWires::bind(const std::string& address) {
  if (!address.starts_with(kUcxScheme)) {
    uses_zmq_ = true;
    return zmq_->bind(address);
  }
  TAUT_TRY(need_ucx());
  TAUT_TRY(const std::string bound, ucx_->bind(address.substr(kUcxScheme.size())));
  return std::string(kUcxScheme) + bound;
}

Result<PeerId> TwoWires::connect(const std::string& address) {
  if (!address.starts_with(kUcxScheme)) {
    uses_zmq_ = true;
    return zmq_->connect(address);
  }
  TAUT_TRY(need_ucx());
  return ucx_->connect(address.substr(kUcxScheme.size()));
}

std::optional<Incoming> TwoWires::receive(Duration wait) {
  if (!ucx_) {
    auto incoming = zmq_->receive(wait);
    if (!incoming) is_woken_ = false;
    return incoming;
  }
  if (!uses_zmq_) {
    // wake() wakes ZeroMQ's side too, which is not read here.
    auto incoming = ucx_->receive(wait);
    if (!incoming) is_woken_ = false;
    return incoming;
  }
  const TimePoint until = steady_now() + wait;
  while (true) {
    // They are first in turn, so that neither starves.
    is_zmqs_turn_ = !is_zmqs_turn_;
    Endpoint& first = is_zmqs_turn_ ? static_cast<Endpoint&>(*zmq_) : *ucx_;
    Endpoint& second = is_zmqs_turn_ ? static_cast<Endpoint&>(*ucx_) : *zmq_;
    if (auto incoming = first.receive(Duration::zero())) return incoming;
    if (auto incoming = second.receive(Duration::zero())) return incoming;
    if (is_woken_.exchange(false)) return std::nullopt;
    const Duration left = until - steady_now();
    if (left <= Duration::zero()) return std::nullopt;
    if (auto incoming = zmq_->receive(left)) return incoming;
    // Woken, refused, or UCX has something.
    if (auto incoming = ucx_->receive(Duration::zero())) return incoming;
    if (is_woken_.exchange(false)) return std::nullopt;
    if (steady_now() >= until) return std::nullopt;
  }
}

}  // namespace taut
