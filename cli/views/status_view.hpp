#pragma once

#include <string>
#include <vector>

#include "proto/control.pb.h"

namespace taut::cli {

/// Everything that the coordinator knows, as lines: jobs (a running one as a progress block),
/// workers, servers.
[[nodiscard]] std::vector<std::string> status_view(const pb::StatusReply& status, int width);

}  // namespace taut::cli
