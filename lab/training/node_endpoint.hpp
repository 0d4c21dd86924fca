#pragma once

#include <deque>
#include <functional>
#include <optional>
#include <string>

#include "common/net/endpoint.hpp"
#include "lab/network.hpp"

namespace taut::lab {

/// An Endpoint on the lab's network. A receive() that waits has its owner let time pass.
class NodeEndpoint final : public Endpoint {
 public:
  struct Owner {
    /// Sends a message as soon as the process gets to it.
    std::function<void(PeerId to, Message message)> send;
    /// Lets time pass until resume() is called on the owner, at most `at_most`.
    std::function<void(Duration at_most)> wait;
    /// Makes a waiting receive() return, or else lets the client work.
    std::function<void()> wake;
    std::function<void()> closed;
  };

  NodeEndpoint(sim::Network& network, sim::NodeId node, Owner owner)
      : network_(network), socket_(network.open(node)), owner_(std::move(owner)) {}
  ~NodeEndpoint() override {
    network_.close(socket_);
    owner_.closed();
  }

  Result<std::string> bind(const std::string& address) override {
    network_.listen(socket_, address);
    return address;
  }
  Result<PeerId> connect(const std::string& address) override {
    return network_.connect(socket_, address);
  }
  void disconnect(PeerId peer) override { network_.disconnect(peer); }
  Result<void> send(PeerId to, Message message) override {
    owner_.send(to, std::move(message));
    return ok();
  }
  /// No firewall separates the lab's hosts, and its coordinator finds lost ones.
  bool has_reached(PeerId /*peer*/) const override { return true; }
  std::optional<Incoming> receive(Duration wait) override {
    if (queue_.empty() && wait > Duration::zero()) owner_.wait(wait);
    if (queue_.empty()) return std::nullopt;
    Incoming first = std::move(queue_.front());
    queue_.pop_front();
    return first;
  }
  void wake() override { owner_.wake(); }

  /// A message has arrived from the network.
  void take(PeerId from, Message message) { queue_.push_back({from, std::move(message)}); }
  [[nodiscard]] bool has_messages() const { return !queue_.empty(); }
  [[nodiscard]] sim::SocketId socket() const { return socket_; }

 private:
  sim::Network& network_;
  const sim::SocketId socket_;
  const Owner owner_;
  std::deque<Incoming> queue_;
};

}  // namespace taut::lab
