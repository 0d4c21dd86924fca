#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "common/net/data_token.hpp"
#include "common/net/security.hpp"
#include "proto/control.pb.h"
#include "proto/data_message.hpp"

namespace taut {

/// Which role may send which message: the one table that decides this, on both planes, is in
/// rights.cpp. Identities are those of `Incoming::sender`; nullptr (there are no keys) may send
/// everything.

/// Why the sender may not send a control message: because of its role, or a hello under a name
/// other than its key's; empty if it may. Messages after a hello are bound to it by the connection,
/// which has one key for its whole life.
[[nodiscard]] std::string refusal_of(const Identity* sender, const pb::ControlMessage& message);

/// The answer with a refusal's reason; nullopt if the message is one that is not answered.
[[nodiscard]] std::optional<pb::ControlMessage> refuse(const pb::ControlMessage& message,
                                                       const std::string& reason);

/// What a shard knows about the job that a message names.
struct JobHere {
  std::uint64_t submission = 0;
  /// The message's worker is a member, with the incarnation that it names, and was not declared
  /// lost.
  bool has_sender = false;
};

/// Why the secret that came with a message of a plain data plane is not valid for that message;
/// empty if it is. The key to which the secret belongs was found before, and refusal_of() judges
/// its role and name.
/// here   nullopt if the job is not known here, so that nothing is done for it
[[nodiscard]] std::string misuse_of(const TokenScope& scope, const DataMessage& message,
                                    const std::optional<JobHere>& here);

/// Why the sender may not send a message between workers and shards; empty if it may.
/// worker   the name of the worker that the message claims to be from; empty if no worker has that
///          number
[[nodiscard]] std::string refusal_of(const Identity* sender, const DataMessage& message,
                                     const std::string& worker);

}  // namespace taut
