#pragma once

#include <filesystem>
#include <map>
#include <string>

#include "common/result.hpp"

namespace taut::model {

/// Where a job, solver or cluster file, and the files that it names, set their fields: FILE:LINE by
/// the field's place in the whole, e.g. "workers", "solver_param.base_lr" or "data[0]". A net has
/// one place, "net_param".
/// Errors    as file_kind; invalid: a file cannot be read
[[nodiscard]] Result<std::map<std::string, std::string>> field_places(
    const std::filesystem::path& path);

}  // namespace taut::model
