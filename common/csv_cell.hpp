#pragma once

#include <string>
#include <string_view>

namespace taut {

/// A text as a CSV cell, in quotes where required.
/// Source    RFC 4180, section 2
[[nodiscard]] inline std::string csv_cell(std::string_view text) {
  if (text.find_first_of(",\"\r\n") == std::string_view::npos) return std::string(text);
  std::string quoted = "\"";
  for (const char c : text) {
    if (c == '"') quoted += '"';
    quoted += c;
  }
  return quoted + '"';
}

}  // namespace taut
