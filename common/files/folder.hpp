#pragma once

#include <filesystem>
#include <functional>
#include <string>
#include <system_error>

#include "common/result.hpp"

namespace taut {

/// "PATH: cannot STEP: REASON", for a system error code.
[[nodiscard]] Error io_error(const std::filesystem::path& path, const char* step,
                             const std::error_code& reason);
/// Overload for the reason in errno.
[[nodiscard]] Error io_error(const std::filesystem::path& path, const char* step);

/// Removes the file `first` of a folder, then the files whose names satisfy `is_taken`, then the
/// folder. Does nothing if the folder does not exist.
/// Errors    io, also if other files are in it
[[nodiscard]] Result<void> remove_files(const std::filesystem::path& folder,
                                        const std::string& first,
                                        const std::function<bool(const std::string&)>& is_taken);

}  // namespace taut
