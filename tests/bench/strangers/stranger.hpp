#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "common/net/data_token.hpp"
#include "common/net/message.hpp"
#include "common/net/security.hpp"
#include "proto/control.pb.h"
#include "proto/data_message.hpp"

namespace taut::strangers {

/// A row of the table: who tries what, at which port.
struct Stranger {
  std::string port{};
  std::string who{};   // its key, or its secret
  std::string what{};  // the request
  std::string address{};
  Security key{};
  std::function<Message()> message{};
  std::function<bool(const Message&)> is_granted{};  // by an answer
  bool may = false;                                  // nothing strange: all must be granted
  bool connects = false;                // its key is admitted, and its tries share a connection
  std::function<Message()> greeting{};  // first on that connection; empty: none
  std::optional<DataToken> token{};     // what its messages to a plain data plane carry
  bool is_dropped = false;              // what it says gets no answer at all
  int at_once = 50;                     // connections, where each try is a new one
  std::function<void()> revoke{};       // its key, once it has been answered; empty: not
};

[[nodiscard]] std::function<Message()> saying(const pb::ControlMessage& message);
[[nodiscard]] std::function<Message()> saying(const DataMessage& message);

/// Judges answers of a coordinator or a shard; what is neither's counts as granted.
[[nodiscard]] bool is_granted(const Message& answer);
/// Judges answers of what answers no stranger.
[[nodiscard]] inline bool is_answer(const Message& /*answer*/) {
  return true;
}

/// The number of `tries` with an answer that grants the request; -1: a key that was to be revoked
/// was never admitted. With the handler alive as each row says; without it, over new connections.
[[nodiscard]] int granted_alive(const Stranger& stranger, int tries);
[[nodiscard]] int granted_without_handler(const Stranger& stranger, int tries);

}  // namespace taut::strangers
