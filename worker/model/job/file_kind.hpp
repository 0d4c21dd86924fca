#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>

#include "common/result.hpp"

namespace taut::model {

/// What a text file describes.
enum class FileKind : std::uint8_t { kJob, kNet, kSolver, kCluster, kSweep, kLabCluster };

/// "job", "net", "solver", "cluster", "sweep" or "lab cluster".
[[nodiscard]] std::string to_string(FileKind kind);

/// The kind with the schema that knows most of the text's outermost field names, so that a file
/// with a mistake still has a kind. `name` is the text's name in messages.
/// Errors    invalid: no schema knows any of them
[[nodiscard]] Result<FileKind> file_kind(std::string_view text, const std::string& name);

/// Overload for a file. Errors: also not_found.
[[nodiscard]] Result<FileKind> file_kind(const std::filesystem::path& path);

}  // namespace taut::model
