#pragma once

#include <google/protobuf/message.h>

#include <filesystem>
#include <string>

#include "common/result.hpp"

namespace taut::model {

/// Reads the file that `field` of the file `mentioned_in` names. Returns where it was found.
/// Errors    not_found, or invalid with line and column
[[nodiscard]] Result<std::filesystem::path> read_mentioned(
    const char* field, const std::string& named, const std::filesystem::path& mentioned_in,
    google::protobuf::Message& out);

}  // namespace taut::model
