#pragma once

#include <memory>
#include <optional>
#include <string>

#include "common/net/zmq/zmq_endpoint.hpp"
#include "tests/support/listed_keys.hpp"

namespace taut::test {

inline constexpr Duration kMaxWait = std::chrono::seconds(20);

inline Message words(const std::string& said) {
  Message message;
  message.frames.push_back(Frame::copy_of(said));
  return message;
}

/// The next message that gets through.
inline std::optional<Incoming> heard(Endpoint& endpoint) {
  const TimePoint deadline = steady_now() + kMaxWait;
  while (steady_now() < deadline) {
    if (auto got = endpoint.receive(std::chrono::milliseconds(50))) return got;
  }
  return std::nullopt;
}

/// A cluster's listening socket.
struct Listener {
  /// is_plain  of a plain data plane, where messages carry secrets
  explicit Listener(bool is_plain = false) {
    listener.own = make_key_pair();
    listener.cluster_key = pair.public_key;
    listener.cluster_secret = pair.secret_key;
    listener.admission = keys;
    listener.plain_data = is_plain;
    context.emplace(listener);
    server = is_plain ? context->make_data_endpoint() : context->make_endpoint();
    address = server->bind("127.0.0.1:0").value();
  }

  KeyPair pair = make_key_pair();
  std::shared_ptr<ListedKeys> keys = std::make_shared<ListedKeys>();
  Security listener;
  std::optional<ZmqContext> context;
  std::unique_ptr<Endpoint> server;
  std::string address;
};

/// A cluster's listening socket of a plain data plane.
struct PlainListener : Listener {
  PlainListener() : Listener(true) {}
  /// A new key, admitted, and its scope as this member of job 7.
  TokenScope member(const std::string& name, std::uint32_t worker) {
    const KeyPair own = make_key_pair();
    keys->admit(own.public_key, {name, KeyRole::kWorker});
    return {.use = TokenUse::kTrain,
            .public_key = own.public_key,
            .job = JobId(7),
            .submission = 77,
            .worker = WorkerId(worker),
            .incarnation = Incarnation(100 + worker)};
  }
  [[nodiscard]] DataToken token(const TokenScope& scope) const {
    return context->tokens()->make(scope);
  }
};

/// Keys of another cluster.
inline Security some_keys() {
  Security security;
  security.own = make_key_pair();
  security.cluster_key = make_key_pair().public_key;
  return security;
}

/// A process that connects.
struct Caller {
  /// token  what its messages carry
  Caller(const Security& security, const std::string& address,
         const std::optional<DataToken>& token = std::nullopt)
      : context(security) {
    endpoint = context.make_endpoint();
    endpoint->use_token(token);
    peer = endpoint->connect(address).value();
  }
  void say(const std::string& said) { (void)endpoint->send(peer, words(said)); }
  /// What keeps it out, once that is known.
  std::optional<Refusal> refusal() {
    const TimePoint deadline = steady_now() + kMaxWait;
    while (steady_now() < deadline) {
      (void)endpoint->receive(std::chrono::milliseconds(50));
      if (auto refused = endpoint->refusal(peer)) return refused;
    }
    return std::nullopt;
  }

  ZmqContext context;
  std::unique_ptr<Endpoint> endpoint;
  PeerId peer;
};

}  // namespace taut::test
