#pragma once

#include <string>

namespace taut {

/// The name of this process's user, at most 128 bytes; empty if it has none.
[[nodiscard]] std::string user_name();

}  // namespace taut
