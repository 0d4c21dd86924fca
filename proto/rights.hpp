#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "common/net/data_token.hpp"
#include "common/net/security.hpp"
#include "proto/control.pb.h"
#include "proto/data_message.hpp"

namespace taut {

/// Which role may send which message: the one table that decides it, on both planes, is in
/// rights.cpp. Identities are those of `Incoming::sender`; nullptr, where there are no keys, may
/// send everything.

/// Why a control message is not the sender's to send: its role, or a hello under another name than
/// its key's; empty: it may send it. What follows a hello is bound to it by the connection, which
/// has one key for its whole life.
[[nodiscard]] std::string refusal_of(const Identity* sender, const pb::ControlMessage& message);

/// The answer that gives a refusal's reason; nullopt: the message is one that is not answered.
[[nodiscard]] std::optional<pb::ControlMessage> refuse(const pb::ControlMessage& message,
                                                       const std::string& reason);

/// What a shard knows of the job that a message names.
struct JobHere {
  std::uint64_t submission = 0;
  /// The message's worker is a member, in the life that it names, and was not declared lost.
  bool has_sender = false;
};

/// Why the secret that a message of a plain data plane came with is not for that message; empty: it
/// is. Whose key the secret is of was found before, and refusal_of() judges its role and name.
/// here   nullopt: the job is not known here, so that nothing is done for it
[[nodiscard]] std::string misuse_of(const TokenScope& scope, const DataMessage& message,
                                    const std::optional<JobHere>& here);

/// Why a message between workers and shards is not the sender's to send.
/// worker   the name of the worker that the message says it is from; empty if there is none of that
///          number
[[nodiscard]] std::string refusal_of(const Identity* sender, const DataMessage& message,
                                     const std::string& worker);

}  // namespace taut
