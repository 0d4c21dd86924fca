#pragma once

#include "common/net/message.hpp"
#include "common/net/shared_link.hpp"
#include "common/result.hpp"
#include "proto/data_message.hpp"

namespace taut {

/// Adds a batch's images and logged updates to the header, and their payloads to the frames; those
/// that `link` lends have places in the header instead.
void add_images(const DataImages& batch, pb::SliceImages& wire, Message& frames, SharedLink* link);

/// Errors    invalid: an impossible image or update, or payloads that are not theirs
[[nodiscard]] Result<DataImages> from_wire(pb::SliceImages& wire, const Message& frames);

}  // namespace taut
