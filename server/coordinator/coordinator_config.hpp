#pragma once

#include "proto/cluster.pb.h"
#include "server/coordinator/coordinator.hpp"

namespace taut {

/// The options that a configuration gives a coordinator, except for the session.
[[nodiscard]] CoordinatorOptions coordinator_options(const pb::CoordinatorConfig& config);

}  // namespace taut
