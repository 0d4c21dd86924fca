#pragma once

#include <filesystem>
#include <functional>
#include <string>
#include <system_error>

#include "common/result.hpp"

namespace taut {

/// "PATH: cannot STEP: REASON", of the system's code.
[[nodiscard]] Error io_error(const std::filesystem::path& path, const char* step,
                             const std::error_code& reason);
/// Overload for the reason in errno.
[[nodiscard]] Error io_error(const std::filesystem::path& path, const char* step);

/// Removes those files of a folder that a predicate takes by their names, `first` before all
/// others, and then the folder. A folder that does not exist is removed already.
/// Errors    io, also if other files are in it
[[nodiscard]] Result<void> remove_files(const std::filesystem::path& folder,
                                        const std::string& first,
                                        const std::function<bool(const std::string&)>& is_taken);

}  // namespace taut
