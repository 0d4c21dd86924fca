#pragma once

#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "common/result.hpp"
#include "proto/config/text_places.hpp"
#include "proto/lab.pb.h"

namespace taut {

/// Reads a lab's cluster, and checks that it is possible.
/// Errors    not_found; invalid: "name:line:column: what", of the first impossible value
[[nodiscard]] Result<pb::LabCluster> read_lab_cluster(const std::filesystem::path& path);

/// Overload for a text of a given name.
[[nodiscard]] Result<pb::LabCluster> parse_lab_cluster(std::string_view text,
                                                       const std::string& name);

/// "name:line:column: what", at the field of a file to which the steps lead; `what` alone if `path`
/// is empty.
[[nodiscard]] Error lab_cluster_error(const std::filesystem::path& path,
                                      const std::vector<PlacedText::Step>& steps,
                                      const std::string& what);

}  // namespace taut
