#pragma once

#include <cstddef>

#include "common/net/message.hpp"
#include "common/result.hpp"
#include "proto/control.pb.h"

namespace taut {

/// The most bytes in the frame of a control message.
inline constexpr std::size_t kMaxControlBytes = 16UL << 20U;

/// One frame as docs/WIRE.md describes it.
[[nodiscard]] Message encode(const pb::ControlMessage& message);

/// Errors: mismatch (another wire version; hello and its reply are decoded anyway, so that both
/// sides can report it), invalid (not a control message).
[[nodiscard]] Result<pb::ControlMessage> decode_control(const Message& frames);

}  // namespace taut
