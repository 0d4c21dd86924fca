#include "common/printable.hpp"

#include <fmt/format.h>

namespace taut {

std::string printable(std::string_view text, Lines lines, std::size_t max_bytes) {
  std::string shown;
  shown.reserve(text.size() < max_bytes ? text.size() : max_bytes);
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (shown.size() >= max_bytes) {
      shown += fmt::format("... ({} bytes)", text.size());
      break;
    }
    const auto byte = static_cast<unsigned char>(text[i]);
    const auto next = i + 1 < text.size() ? static_cast<unsigned char>(text[i + 1]) : 0U;
    if (byte == '\n' && lines == Lines::kOne) {
      shown += "\\n";
    } else if (byte == 0xC2 && next >= 0x80 && next < 0xA0) {  // U+0080 to U+009F
      shown += fmt::format("\\x{:02x}", next);
      ++i;
    } else if ((byte < 0x20 && byte != '\t' && byte != '\n') || byte == 0x7F) {
      shown += fmt::format("\\x{:02x}", byte);
    } else {
      shown += text[i];
    }
  }
  return shown;
}

}  // namespace taut
