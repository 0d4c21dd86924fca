#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <thread>

#include "common/net/zmq/zmq_endpoint.hpp"
#include "proto/control_message.hpp"

namespace taut::test {

/// Listens where a coordinator would and answers what a test tells it to.
class FakeCoordinator {
 public:
  /// The answer to a message, or nothing to keep silent. Runs on the fake's thread.
  using Answer = std::function<std::optional<pb::ControlMessage>(const pb::ControlMessage&)>;

  explicit FakeCoordinator(Answer answer)
      : endpoint_(context_.make_endpoint()), answer_(std::move(answer)) {
    address_ = endpoint_->bind("127.0.0.1:0").value();
    thread_ = std::thread([this] { serve(); });
  }
  ~FakeCoordinator() {
    ended_ = true;
    endpoint_->wake();
    thread_.join();
  }
  FakeCoordinator(const FakeCoordinator&) = delete;
  FakeCoordinator& operator=(const FakeCoordinator&) = delete;

  [[nodiscard]] const std::string& address() const { return address_; }

 private:
  void serve() {
    while (!ended_) {
      const auto incoming = endpoint_->receive(std::chrono::seconds(1));
      if (!incoming) continue;
      const auto message = decode_control(incoming->message);
      if (!message) continue;
      auto answer = answer_(message.value());
      if (!answer) continue;
      answer->set_request(message.value().request());
      [[maybe_unused]] const auto sent = endpoint_->send(incoming->from, encode(*answer));
    }
  }

  ZmqContext context_{Security::insecure()};
  std::unique_ptr<Endpoint> endpoint_;
  Answer answer_;
  std::string address_;
  std::atomic<bool> ended_{false};
  std::thread thread_;
};

}  // namespace taut::test
