#pragma once

#include <string>

namespace taut {

/// This machine's name; empty if it has none.
[[nodiscard]] std::string host_name();

}  // namespace taut
