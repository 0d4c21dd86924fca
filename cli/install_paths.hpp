#pragma once

#include <filesystem>
#include <string>

#include "common/result.hpp"

namespace taut::cli {

/// The installed configurations: the folder that TAUTLINE_CONFIGS names; or, relative to this
/// program's folder, ../share/tautline/configs or the source tree's `configs` next to the build
/// folder or above it.
/// Errors    not_found
[[nodiscard]] Result<std::filesystem::path> configs_folder();

/// Another program of Tautline: next to this one, otherwise on the PATH.
/// Errors    not_found
[[nodiscard]] Result<std::filesystem::path> sibling_program(const std::string& name);

}  // namespace taut::cli
