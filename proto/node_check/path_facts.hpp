#pragma once

#include <cstddef>
#include <string>

#include "proto/node_check.pb.h"

namespace taut {

/// What this process sees at a path: the facts by which two machines' views of it are compared. A
/// path outside of this process's allowed folders is an error in them.
/// max_entries  how many of a folder's entries are compared: those whose names come first
[[nodiscard]] pb::PathFacts describe_path(const std::string& path, std::size_t max_entries = 65536);

}  // namespace taut
