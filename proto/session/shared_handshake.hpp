#pragma once

#include "common/net/shared_link.hpp"
#include "common/result.hpp"
#include "proto/data.pb.h"

namespace taut {

[[nodiscard]] pb::SharedMemory to_wire(const SharedLink::Offer& offer);

/// Errors: invalid (a probe of another size).
[[nodiscard]] Result<SharedLink::Offer> from_wire(const pb::SharedMemory& wire);

}  // namespace taut
