#pragma once

#include <string>

#include "common/net/data_token.hpp"
#include "proto/control.pb.h"

namespace taut {

/// Adds to a message of the coordinator the secret that its receiver needs on a plain data plane: a
/// member's for its life in a job, a reader's for a job, a process's for a check of links. Other
/// messages stay as they are. It is added as the message is sent, so that no state has it.
/// public_key  of the receiver, as its handshake proved
void add_secret(pb::ControlMessage& message, const TokenKey& tokens, const std::string& public_key);

}  // namespace taut
