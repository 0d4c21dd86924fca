#pragma once

#include <filesystem>
#include <string>
#include <string_view>

#include "common/result.hpp"
#include "proto/lab.pb.h"

namespace taut {

/// Reads a lab's cluster, and checks that it can be.
/// Errors    not_found; invalid: "name:line:column: what", of the first value that cannot be
[[nodiscard]] Result<pb::LabCluster> read_lab_cluster(const std::filesystem::path& path);

/// Overload for a text of a given name.
[[nodiscard]] Result<pb::LabCluster> parse_lab_cluster(std::string_view text,
                                                       const std::string& name);

/// "name:line:column: what", at the memory of a file's host.
[[nodiscard]] Error lab_memory_error(const std::filesystem::path& path, int host,
                                     const std::string& what);

}  // namespace taut
