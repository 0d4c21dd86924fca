#include "tests/bench/strangers/stranger.hpp"

#include <algorithm>
#include <chrono>
#include <set>

#include "common/net/zmq/zmq_endpoint.hpp"
#include "proto/control_message.hpp"
#include "tests/unit/server/guarded_cluster.hpp"

namespace taut::strangers {
namespace {

constexpr Duration kAnswerWait = std::chrono::seconds(10);
// Refusals arrive within milliseconds; a handler that is gone may leave a handshake pending.
constexpr Duration kBatchWait = std::chrono::seconds(2);

/// Its process, with one connection.
struct Caller {
  explicit Caller(const Stranger& stranger)
      : context(stranger.key), endpoint(context.make_endpoint()) {
    endpoint->use_token(stranger.token);
    peer = endpoint->connect(stranger.address).value();
  }
  void say(const std::function<Message()>& message) const { (void)endpoint->send(peer, message()); }

  ZmqContext context;
  std::unique_ptr<Endpoint> endpoint;
  PeerId peer;
};

/// Each try over a new connection.
int connect_and_ask(const Stranger& stranger, int tries) {
  ZmqContext context(stranger.key);
  int granted = 0;
  for (int done = 0; done < tries; done += stranger.at_once) {
    const auto endpoint = context.make_endpoint();
    endpoint->use_token(stranger.token);
    std::set<PeerId> waiting;
    for (int i = 0; i < std::min(stranger.at_once, tries - done); ++i) {
      const PeerId peer = endpoint->connect(stranger.address).value();
      (void)endpoint->send(peer, stranger.message());
      waiting.insert(peer);
    }
    const TimePoint deadline = steady_now() + kBatchWait;
    while (!waiting.empty() && steady_now() < deadline) {
      if (const auto got = endpoint->receive(std::chrono::milliseconds(20))) {
        granted += static_cast<int>(stranger.is_granted(got->message));
        waiting.erase(got->from);
      }
      std::erase_if(waiting, [&](PeerId peer) { return endpoint->refusal(peer).has_value(); });
    }
  }
  return granted;
}

/// All over one connection, each after the answer to the one before.
int ask_often(const Stranger& stranger, int tries) {
  const Caller caller(stranger);
  const auto ask = [&](const std::function<Message()>& message) {
    caller.say(message);
    const TimePoint deadline = steady_now() + kAnswerWait;
    while (steady_now() < deadline) {
      if (const auto got = caller.endpoint->receive(std::chrono::milliseconds(100))) {
        return stranger.is_granted(got->message);
      }
      if (caller.endpoint->refusal(caller.peer)) return false;
    }
    return false;
  };
  if (stranger.greeting && !ask(stranger.greeting)) return 0;
  int granted = 0;
  for (int i = 0; i < tries; ++i) granted += static_cast<int>(ask(stranger.message));
  return granted;
}

/// As above, if nothing is answered: all are sent, then it listens.
int ask_in_vain(const Stranger& stranger, int tries) {
  const Caller caller(stranger);
  if (stranger.greeting) caller.say(stranger.greeting);
  for (int i = 0; i < tries; ++i) caller.say(stranger.message);
  int granted = 0;
  while (const auto got = caller.endpoint->receive(kBatchWait)) {
    granted += static_cast<int>(stranger.is_granted(got->message));
  }
  return granted;
}

/// A key that is revoked while its connection is open; answers that arrive afterwards.
int ask_after_revocation(const Stranger& stranger, int tries) {
  const Caller caller(stranger);
  caller.say(stranger.greeting ? stranger.greeting : stranger.message);
  if (!caller.endpoint->receive(kAnswerWait)) return -1;
  stranger.revoke();
  int answers = 0;
  for (int i = 0; i < tries; ++i) {
    caller.say(stranger.message);
    if (caller.endpoint->receive(std::chrono::milliseconds(1))) ++answers;
  }
  const TimePoint deadline = steady_now() + kBatchWait;
  while (steady_now() < deadline) {
    if (caller.endpoint->receive(std::chrono::milliseconds(50))) ++answers;
  }
  return answers;
}

}  // namespace

std::function<Message()> saying(const pb::ControlMessage& message) {
  return [message] { return encode(message); };
}

std::function<Message()> saying(const DataMessage& message) {
  return [message] { return encode(message); };
}

bool is_granted(const Message& answer) {
  if (const auto control = decode_control(answer)) return test::is_granted(control.value());
  if (const auto data = decode_data(answer)) return test::is_granted(data.value());
  return true;
}

int granted_alive(const Stranger& stranger, int tries) {
  if (stranger.revoke) return ask_after_revocation(stranger, tries);
  if (stranger.is_dropped) return ask_in_vain(stranger, tries);
  return stranger.connects || stranger.may ? ask_often(stranger, tries)
                                           : connect_and_ask(stranger, tries);
}

int granted_without_handler(const Stranger& stranger, int tries) {
  return connect_and_ask(stranger, tries);
}

}  // namespace taut::strangers
