#pragma once

#include <string>

#include "common/net/data_token.hpp"
#include "proto/control.pb.h"

namespace taut {

/// Adds to a coordinator's message the secret that its receiver needs on a plain data plane: a
/// member's for its life in a job, a reader's for a job, a process's for a check of links. Other
/// messages are unchanged. The secret is added when the message is sent, so that no state has it.
/// public_key  of the receiver, as proved by its handshake
void add_secret(pb::ControlMessage& message, const TokenKey& tokens, const std::string& public_key);

}  // namespace taut
