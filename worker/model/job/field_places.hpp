#pragma once

#include <filesystem>
#include <map>
#include <string>

#include "common/result.hpp"

namespace taut::model {

/// Where a job, solver or cluster file, and the files that it names, set their fields: maps a
/// field's path, e.g. "workers", "solver_param.base_lr" or "data[0]", to FILE:LINE. A net has one
/// path, "net_param".
/// Errors    as file_kind; invalid: a file cannot be read
[[nodiscard]] Result<std::map<std::string, std::string>> field_places(
    const std::filesystem::path& path);

}  // namespace taut::model
