#pragma once

#include <filesystem>
#include <string>

#include "common/result.hpp"

namespace taut::cli {

/// The configurations that come along: the folder that TAUTLINE_CONFIGS names; or, from where this
/// program lies, the installed one (../share/tautline/configs) or the source tree's (a `configs`
/// beside the build folder or above it).
/// Errors    not_found
[[nodiscard]] Result<std::filesystem::path> configs_folder();

/// Another program of ours: beside this one, else on the PATH.
/// Errors    not_found
[[nodiscard]] Result<std::filesystem::path> sibling_program(const std::string& name);

}  // namespace taut::cli
