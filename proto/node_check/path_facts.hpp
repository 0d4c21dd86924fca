#pragma once

#include <string>

#include "proto/node_check.pb.h"

namespace taut {

/// What this process sees at a path: the facts by which two machines' views of it are compared. A
/// path outside of this process's allowed folders is an error in them.
[[nodiscard]] pb::PathFacts describe_path(const std::string& path);

}  // namespace taut
