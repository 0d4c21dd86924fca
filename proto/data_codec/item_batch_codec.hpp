#pragma once

#include "common/net/message.hpp"
#include "common/net/shared_link.hpp"
#include "common/result.hpp"
#include "proto/data_message.hpp"

namespace taut {

/// Adds a batch's items to the header and its payloads where they cost least: as places in shared
/// memory, small ones together in one frame, since a frame costs more than the copy, and the
/// others in separate frames.
void add_items(const DataItems& batch, pb::DataItems& wire, Message& frames, SharedLink* link);

/// The items of a message, each with its payload, which is shared with the frames.
/// Errors    invalid: an impossible item, or payloads that are not those of the items
[[nodiscard]] Result<DataItems> from_wire(pb::DataItems& wire, const Message& frames,
                                          SharedLink* link);

}  // namespace taut
