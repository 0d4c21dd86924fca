#pragma once

#include "common/net/message.hpp"
#include "common/net/shared_link.hpp"
#include "common/result.hpp"
#include "proto/data_message.hpp"

namespace taut {

/// Adds a batch's logged updates to the header, and their gradients to the frames; those that
/// `link` lends have a place in the header instead.
void add_logged(const DataImages& batch, pb::SliceImages& wire, Message& frames, SharedLink* link);

/// An update without its gradient.
[[nodiscard]] Result<LoggedUpdate> from_wire(pb::SliceImages::Logged& wire);

}  // namespace taut
