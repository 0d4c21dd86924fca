#pragma once

#include <filesystem>
#include <string>

#include "common/result.hpp"

namespace taut {

/// The name, in a folder of keys, of the file with what logins to the processes' HTTP are made
/// from.
inline constexpr const char* kHttpSecretFile = "http.secret";

/// The secret of a folder of keys, made where there is none yet; several processes may do so at
/// once. Removing the file logs every browser out, once the processes have started again.
/// Errors    invalid: other users can read it; io
[[nodiscard]] Result<std::string> ensure_http_secret(const std::filesystem::path& folder);

}  // namespace taut
