#pragma once

#include <filesystem>
#include <string>

#include "common/result.hpp"

namespace taut {

/// The name, in a folder of keys, of the file with the secret from which logins to the processes'
/// HTTP are derived.
inline constexpr const char* kHttpSecretFile = "http.secret";

/// The secret of a folder of keys, made if it does not exist yet; several processes may do so at
/// once. Removing the file logs every browser out, once the processes have restarted.
/// Errors    invalid: other users can read it; io
[[nodiscard]] Result<std::string> ensure_http_secret(const std::filesystem::path& folder);

}  // namespace taut
