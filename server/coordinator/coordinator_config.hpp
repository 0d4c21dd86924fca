#pragma once

#include "proto/cluster.pb.h"
#include "server/coordinator/coordinator.hpp"

namespace taut {

/// A coordinator's options as its configuration says, but for the session.
[[nodiscard]] CoordinatorOptions coordinator_options(const pb::CoordinatorConfig& config);

}  // namespace taut
