#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace taut {

/// Whether an end of a line may stay.
enum class Lines : bool { kOne, kSeveral };

/// A text of a peer's as a log or a terminal may show it: control characters, which could move the
/// cursor, change colours or begin another line, are written as "\x1b", and what is longer than the
/// limit is cut. Tabs stay.
[[nodiscard]] std::string printable(std::string_view text, Lines lines,
                                    std::size_t max_bytes = std::string_view::npos);

}  // namespace taut
