#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace taut {

/// Whether line ends are kept.
enum class Lines : bool { kOne, kSeveral };

/// A peer's text, made safe for a log or a terminal: control characters, which could move the
/// cursor, change colors or start another line, are escaped as "\x1b", and text beyond the limit is
/// cut. Tabs are kept.
[[nodiscard]] std::string printable(std::string_view text, Lines lines,
                                    std::size_t max_bytes = std::string_view::npos);

}  // namespace taut
